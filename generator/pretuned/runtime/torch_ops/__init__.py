"""The kernels as operators of PyTorch, and what `torch.py` of the package is written with. It imports PyTorch.

torch.compile and torch.export trace the function that `torch.py` has for a kernel; it calls the operators. In eager
mode the kernel's own function goes round them, but for what only they can do (`eager`).
"""

from __future__ import annotations

from ..errors import ArgumentError, ArgumentTypeError, qualified
from .eager import route, watch
from .gradients import differentiable, recorded, refuse_gradients, refuse_outputs
from .operators import Operators

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..table import Foreign

__all__ = [
    "Operators",
    "demand_none",
    "demand_output",
    "differentiable",
    "field",
    "filled",
    "recorded",
    "refuse_gradients",
    "refuse_outputs",
    "route",
    "watch",
]


def demand_none(kernel: str, stream: Foreign) -> None:
    """Raise ArgumentTypeError for a stream, which an operator cannot be given."""
    if stream is not None:
        raise ArgumentTypeError(
            f"{qualified(kernel)}: stream: cannot be given where an operator of PyTorch runs the call (torch.compile, "
            "autograd, tensors of a subclass); write `with torch.cuda.stream(stream):` around it"
        )


def demand_output(kernel: str, name: str, output: Foreign) -> None:
    """Raise ArgumentTypeError for an output that is missing where no operator can make it."""
    if output is None:
        raise ArgumentTypeError(
            f"{qualified(kernel)}: {name}: pass this output, since no operator of PyTorch can make it: the kernel has "
            "no input to go by, or changes arrays in place and makes lists"
        )


def filled(kernel: str, name: str, output: Foreign, made: Foreign) -> Foreign:
    """Return the output that a call brings with the result of the operator in it; the result where it brings none."""
    if output is None:
        return made
    several = zip(output, made, strict=True) if isinstance(made, (list, tuple)) else ((output, made),)
    for one, result in several:
        if one.shape != result.shape or one.dtype != result.dtype:
            raise ArgumentError(
                f"{qualified(kernel)}: {name}: expected {tuple(result.shape)} of {result.dtype}, found "
                f"{tuple(one.shape)} of {one.dtype}"
            )
        one.copy_(result)
    return output


def field(struct: Foreign, name: str) -> Foreign:
    """Return a field of a struct: of a dict, or of an object with attributes."""
    return struct[name] if isinstance(struct, dict) else getattr(struct, name)
