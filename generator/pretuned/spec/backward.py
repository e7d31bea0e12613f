"""A kernel and the kernel of its gradient: what each argument of the second is to the first, by words.

The word of an argument is what `names` gives for it, or else its name. `x` is the input or the output x of the forward
kernel, and `grad_y` the gradient of its output y. Of what the gradient's kernel writes, `grad_x` is the gradient of the
input x. Numbers and keywords are handed on by their words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pretuned.runtime.gradients import Backward
from pretuned.spec.parts import Presence

if TYPE_CHECKING:
    from pretuned.spec.model import KernelSpec

GRADIENT: Final = "grad_"  # before the name of an array


def word_of(spec: KernelSpec, name: str) -> str:
    """Return the word of an argument of the gradient's kernel."""
    return name if spec.backward is None else spec.backward.names.get(name, name)


def meaning(spec: KernelSpec, word: str) -> tuple[str, int] | None:
    """Return what an input of the gradient's kernel is: "input", "output" or "gradient" with the array's index."""
    kinds = ("input", spec.inputs, ""), ("output", spec.outputs, ""), ("gradient", spec.outputs, GRADIENT)
    found = ((kind, i) for kind, arrays, prefix in kinds for i, one in enumerate(arrays) if word == prefix + one.name)
    return next(found, None)


def target(spec: KernelSpec, word: str) -> int | None:
    """Return the index of the input whose gradient an output of the gradient's kernel is."""
    return next((i for i, one in enumerate(spec.inputs) if word == GRADIENT + one.name), None)


def keywords(spec: KernelSpec) -> list[str]:
    """Return what a call of a kernel without lists gives by keyword: specialisations by value, and dims, sorted."""
    chosen = {name for name, one in spec.specialisations.items() if one.values and not isinstance(one, Presence)}
    return sorted(chosen | {name for name, dim in spec.dims.items() if dim.keyword})


def numbers(spec: KernelSpec) -> list[str]:
    """Return the numbers and the keywords of a call."""
    return [*(scalar.name for scalar in spec.scalars), *keywords(spec)]


def backward_of(spec: KernelSpec, other: KernelSpec) -> Backward:
    """Return what calls need to compute the gradient of a kernel by `other`; of a pair that is sound."""
    inputs, outputs = [], []
    for one in other.inputs:
        found = meaning(spec, word_of(spec, one.name))
        assert found is not None  # as the pair was checked
        inputs.append((one.name, *found))
    for one in other.outputs:
        index = target(spec, word_of(spec, one.name))
        assert index is not None  # as above
        outputs.append((one.name, index))
    known = numbers(spec)
    passed = [(name, word) for name in numbers(other) if (word := word_of(spec, name)) in known]
    return Backward(other.name, tuple(inputs), tuple(outputs), tuple(passed))
