"""A kernel of one parameter on disk, `case`, and a tuning of it on the host device: what is kept, and what failed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from pretuned.config.settings import Place
from pretuned.outcome import Failure
from pretuned.spec.loader import load
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import all_problems
from pretuned.tune.events import Event, Failed
from pretuned.tune.request import TRIAL_PROFILE, TuningRequest, find_device
from pretuned.tune.session import Tuned, tune

ROWS_ALONE = replace(TRIAL_PROFILE, surveyed_problems=0, tried_problems=0, certified_problems=0)
SPEC = """\
format  = 1
arguments = [
  {{ name = "y", role = "out", dtype = "float32", shape = ["n"] }},
  {{ name = "x", role = "in", dtype = "float32", shape = ["n"] }},
  {{ name = "n", dtype = "int32" }},
{arguments}]

[dims]
n = {{ sizes = [5000] }}

[space]
case = {cases}

[default]
case = 0

[[launches]]
function = "{name}"
grid     = ["ceil_div(n, 256)"]
block    = [256]

[verify]
reference = "reference.py:{name}"
{verify}"""


def kernel(
    folder: Path,
    name: str,
    template: str,
    cases: Iterable[int],
    *,
    result: str = "2 * x",
    arguments: str = "",
    verify: str = "",
) -> KernelSpec:
    """Write a kernel with `case` among `cases`, 0 its default, whose output is `result` of x, and load it."""
    folder.mkdir(parents=True, exist_ok=True)
    text = SPEC.format(name=name, cases=list(cases), arguments=arguments, verify=verify)
    (folder / f"{name}.toml").write_text(text)
    (folder / f"{name}.cu.jinja").write_text(template)
    (folder / "reference.py").write_text(f"def {name}(x, **_):\n    return {result}\n")
    return load(folder / f"{name}.toml")


def tuned_on_host(spec: KernelSpec, cache: Path | None = None) -> tuple[Tuned, list[int], dict[int, Failure]]:
    """Tune a kernel of `kernel`; return what was tuned, the cases that its row keeps in order, and failures by case."""
    failures: dict[int, Failure] = {}

    def listen(event: Event) -> None:
        if isinstance(event, Failed):
            failures[dict(event.configuration.values)["case"]] = event.failure

    request = TuningRequest(spec=spec, problems=tuple(all_problems(spec)))
    device = replace(find_device(Place(backend="host"), {}), effort=ROWS_ALONE)
    tuned = tune([request], device, cache_folder=cache, listen=listen)
    (row,) = tuned.rows
    return tuned, [dict(choice.configuration.values)["case"] for choice in row.choices], failures
