"""Which calls in eager mode go by an operator: what the fast path cannot do, and no other.

Tensors of subclasses, without memory or under a transform, and calls while a mode watches what is dispatched, go by the
operator, which PyTorch knows. Inputs that require a gradient go to autograd. All else takes the path of every call.
"""

from __future__ import annotations

from importlib import import_module

from ..adapters import Expressions, register
from ..adapters.torch import PyTorch
from ..bound import Binding
from ..calls import Caller, callers, kinds
from ..errors import ArgumentError, qualified
from ..table import KERNELS, Array, Kernel
from .operators import batched, running

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..records import Value
    from ..table import Foreign

torch: Foreign = import_module("torch")
forward_mode: Foreign = import_module("torch.autograd.forward_ad")
PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
# None of these has a public name; where one is gone, its calls are not known from others.
_modes: Foreign = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)  # noqa: SLF001
_transforms: Foreign = getattr(torch._C, "_functorch", None)  # noqa: SLF001
_wrapped: Foreign = getattr(_transforms, "is_functorch_wrapped_tensor", lambda _tensor: False)
_batched: Foreign = getattr(_transforms, "is_batchedtensor", lambda _tensor: False)


class WatchedPyTorch(PyTorch):
    """PyTorch's tensors, where the fast path has to leave some of them to operators."""

    def expressions(self) -> Expressions:
        """Return how the fast path asks tensors, and when it may not be taken."""
        found = super().expressions()
        found.each = f"type({{a}}) in plain and {found.each}"
        found.once = "not modes() and forward_mode._current_level < 0"
        found.names = {**found.names, "plain": PLAIN, "modes": _modes, "forward_mode": forward_mode}
        return found


def route(function: Callable[..., Foreign], traced: Callable[..., Foreign]) -> None:
    """Have calls of a kernel's function that need an operator go by `traced`, and torch.compile trace that instead."""
    kernel = KERNELS[function.__name__]
    made: Foreign = function
    # As torch.jit has it. torch.compiler.substitute_in_graph loads all of torch._dynamo, which takes seconds.
    made._torchdynamo_inline = traced  # noqa: SLF001

    class Routed(Caller):
        """A kernel's calls, of which some go by its operator."""

        def slow(
            self, arrays: Sequence[Foreign], scalars: Sequence[Foreign], keywords: tuple[Value, ...], stream: Foreign
        ) -> Foreign:
            """Run a call from its beginning, or by the operator."""
            if _concerned(kernel, arrays, stream):
                return traced(**_named(kernel, traced, arrays, scalars, keywords, stream))
            return super().slow(arrays, scalars, keywords, stream)

    def first(*call: Foreign) -> Foreign:
        """Make a call, the first perhaps; one that goes by the operator needs no driver."""
        arrays, numbers = call[: len(kernel.arrays)], len(kernel.arrays) + len(kernel.scalars)
        if _concerned(kernel, arrays, call[-1]):
            parts = arrays, call[len(arrays) : numbers], call[numbers:-1], call[-1]
            return traced(**_named(kernel, traced, *parts))
        return Kernel.begin(kernel, *call)

    kinds[kernel.name] = Routed
    callers.pop(kernel.name, None)
    kernel.run = first


def watch() -> None:
    """Have the fast path look for what goes by operators."""
    register(WatchedPyTorch())


def _concerned(kernel: Kernel, arrays: Sequence[Foreign], stream: Foreign) -> bool:
    """Return whether a call goes by the operator, or to autograd; raises ArgumentError for one that cannot."""
    tensors = [one for one in arrays if isinstance(one, torch.Tensor)]
    if not tensors or isinstance(stream, Binding) or getattr(running, "operator", False):
        return False
    if any(map(_batched, tensors)):
        raise ArgumentError(batched(kernel))
    if forward_mode._current_level >= 0:  # noqa: SLF001 - unpack_dual needs a level
        _refuse_tangents(kernel, arrays)
    return bool(_modes()) or any(map(_special, tensors))


def _special(tensor: Foreign) -> bool:
    recorded = tensor.requires_grad and torch.is_grad_enabled()
    return recorded or type(tensor) not in PLAIN or tensor.is_meta or _wrapped(tensor)


def _refuse_tangents(kernel: Kernel, arrays: Sequence[Foreign]) -> None:
    for array, tensor in zip(kernel.arrays, arrays, strict=True):
        if isinstance(tensor, torch.Tensor) and forward_mode.unpack_dual(tensor).tangent is not None:
            raise ArgumentError(
                f"{qualified(kernel.name)}: {array.name}: has a tangent, and forward-mode differentiation does not go "
                "through this kernel; use reverse mode, or pass torch.autograd.forward_ad.unpack_dual"
                f"({array.name}).primal"
            )


def _named(
    kernel: Kernel,
    traced: Callable[..., Foreign],
    arrays: Sequence[Foreign],
    scalars: Sequence[Foreign],
    keywords: Sequence[Value],
    stream: Foreign,
) -> dict[str, Foreign]:
    """Return the arguments of a call by their names, lists put together again."""
    found = {one.name: value for one, value in zip(kernel.scalars, scalars, strict=True)}
    found |= dict(zip(kernel.keywords, keywords, strict=True))
    rest = iter(arrays)
    for argument in kernel.arguments:
        if isinstance(argument, Array):
            several = [next(rest) for _ in argument.members or (argument,)]
            found[argument.name] = (
                ([one for one in several if one is not None] or None) if argument.count else several[0]
            )
    code = traced.__code__
    taken = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return {name: value for name, value in found.items() if name in taken} | {"stream": stream}
