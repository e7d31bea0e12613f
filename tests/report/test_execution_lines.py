"""What is printed of findings: those alike in a few lines, and nothing of kernels that were only left out."""

from __future__ import annotations

from pretuned.report.execution import finding_lines
from pretuned.spec.space import Configuration, Problem
from pretuned.tune.findings import ExecutionReport, Finding


def _finding(number: int, detail: str) -> Finding:
    return Finding(
        kernel="axpy",
        mode="host",
        outcome="wrong result",
        detail=detail,
        specialisation=(),
        configuration=Configuration(implementation="main", values=(("block", 128),)),
        problem=Problem(specialisation=(), dims=(("n", number),)),
    )


def test_findings_that_differ_in_signs_and_thousands_are_alike():
    details = [
        "out: 1 of 1 elements are off by up to 3, first at [0]: -1.5 instead of 2; allowed: 0",
        "out: 37 of 37 elements are off by up to 0.5, first at [0]: 1.5 instead of -2e-05; allowed: 6.5e-05",
        "out: 99,267 of 100,003 elements are off by up to inf, first at [0]: nan instead of 2; allowed: 0.1",
        "out: 99,268 of 1,100,003 elements are off by up to 3, first at [7]: -inf instead of 2; allowed: 0.1",
        "out: 5 of 5 elements are off by up to 3, first at [0]: -1.5 instead of -2; allowed: 0",
    ]
    findings = [_finding(number, detail) for number, detail in enumerate(details)]
    findings.append(_finding(0, "sum: 1 of 1 elements are off by up to 3, first at [0]: -1.5 instead of 2; allowed: 0"))
    assert list(finding_lines(ExecutionReport(kernel="axpy", mode="host", findings=findings), None)) == [
        f"axpy at n=0 and 4 other problems: block=128\n  host: wrong result: {details[0]}",
        "  4 findings like this, with other numbers, at n=1; n=2; n=3; ... (`--json` lists all)",
        f"axpy at n=0: block=128\n  host: wrong result: {findings[-1].detail}",
    ]


def test_what_only_gpus_run_is_no_finding_however_much_was_left_uncompiled():
    assert list(finding_lines(ExecutionReport(kernel="axpy", mode="host", total=8, uncompiled=5), None)) == []
