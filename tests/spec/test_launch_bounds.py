"""`__launch_bounds__` of fewer threads than a launch's block: a fault of a default, found for other configurations."""

from __future__ import annotations

import pytest

from pretuned.spec.check.launch_bounds import bound_blocks
from pretuned.spec.cpp import launch_bound, without_comments
from specs import SCALE_TEMPLATE, edited, faults, loaded


def bounded(bound):
    """The template of a kernel with launch bounds, whose kernel stands in the template's line 4."""
    kernel = 'extern "C" __global__ void scale('
    return edited(SCALE_TEMPLATE, (kernel, f'extern "C" __global__ void __launch_bounds__({bound}) scale('))


def test_a_default_that_can_never_be_launched_is_a_fault_with_the_templates_line(tmp_path):
    (fault,) = faults(tmp_path, template=bounded("128"))
    assert fault == (
        "scale.toml: launches[0].block: a block of 256 threads, and scale.cu.jinja:4 gives 'scale' "
        "`__launch_bounds__(128)`, so that it cannot be launched; write `__launch_bounds__({{ block }})` there"
    )


@pytest.mark.parametrize("bound", ["{{ block }}", "256", "{{ block }}, 2", "1024, 2048 / {{ block }}"])
def test_bounds_that_admit_every_block_say_nothing(tmp_path, bound):
    assert list(bound_blocks(loaded(tmp_path, template=bounded(bound)))) == []


def test_a_configuration_that_can_never_be_launched_is_found(tmp_path):
    spec = loaded(tmp_path, ("block = [128, 256]", "block = [128, 256, 512]"), template=bounded("256"))
    (found,) = bound_blocks(spec)
    assert dict(found.configuration.values)["block"] == 512
    assert (found.path, found.threads, found.bound.threads) == ("launches[0].block", 512, 256)


def test_configurations_that_constraints_leave_out_are_not_looked_at(tmp_path):
    edits = [("block = [128, 256]", "block = [128, 256, 512]"), ('where = ["vec', 'where = ["block <= 256", "vec')]
    assert list(bound_blocks(loaded(tmp_path, *edits, template=bounded("256")))) == []


def test_a_conflict_that_needs_another_value_as_well_is_found(tmp_path):
    """Of 512 threads only vec = 4 is legal, which neither the default nor the first values are."""
    edits = [
        ("block = [128, 256]", "block = [128, 256, 512]"),
        ('where = ["vec', 'where = ["block < 512 or vec == 4", "vec'),
    ]
    (found,) = bound_blocks(loaded(tmp_path, *edits, template=bounded("256")))
    assert dict(found.configuration.values) == {"block": 512, "vec": 4}


def test_a_block_of_several_dims_counts_as_their_product(tmp_path):
    edits = [('block    = ["block"]', 'block    = ["block", "vec + 1"]')]
    (fault,) = faults(tmp_path, *edits, template=bounded("300"))
    assert "a block of 512 threads" in fault
    assert "write `__launch_bounds__({{ block * (vec + 1) }})` there" in fault


def test_a_block_that_the_call_decides_is_not_judged(tmp_path):
    edits = [
        ('block    = ["block"]', 'block    = ["min(n, 256)"]'),
        ("block = [128, 256]", "block = [128]"),
        ("block = 256", "block = 128"),
    ]
    assert faults(tmp_path, *edits, template=bounded("32")) == []


def bound_of(text, function="f"):
    found = launch_bound(without_comments(text), function)
    return None if found is None else (found.threads, found.line)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("__global__ void __launch_bounds__(128) f(int n) {}", (128, 1)),
        ("\n__launch_bounds__(128u, 4)\n__global__ void f(int n) {}", (128, 2)),
        (
            "constexpr int a = 4, b = 32;\nconstexpr int block = 4 * 32;\n__global__ __launch_bounds__(block) void f(",
            (128, 3),
        ),
        (
            "constexpr int warps = 4;\nconstexpr unsigned block = (warps * 64) / 2;\nvoid __launch_bounds__(block) f(",
            (128, 3),
        ),
        ("#define WARPS 4\nvoid __launch_bounds__((WARPS * 32), min(2, 3)) f(", (128, 2)),
        ("void __launch_bounds__(128) __cluster_dims__(2, 1, 1) f(", (128, 1)),
        ("void __launch_bounds__(64) g(int n) {}\nvoid f(int n) {}", None),  # another kernel's
        ("void __launch_bounds__(64) g(int n);\nvoid __launch_bounds__(128) f(int n) {}", (128, 2)),
        ("// __launch_bounds__(64)\nvoid f(int n) {}", None),
        ("#if A\nvoid __launch_bounds__(64) f(int);\n#else\nvoid __launch_bounds__(128) f(int);\n#endif", None),
        ("void __launch_bounds__(block) f(", None),  # nobody knows it
        ("void __launch_bounds__(A ? 64 : 128) f(", None),
        ("#define A B\n#define B A\nvoid __launch_bounds__(A) f(", None),
        ("void __launch_bounds__(sizeof(float) * 32) f(", None),
        ("void __launch_bounds__(1 / 0) f(", None),
        ("void f(int n) {}", None),
    ],
)
def test_bounds_are_read_where_the_text_leaves_no_doubt(text, found):
    assert bound_of(text) == found
