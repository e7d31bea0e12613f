"""Which calls in eager mode go by an operator: what the fast path cannot do, and no other.

Tensors of subclasses, without memory or under a transform, and calls while a mode watches what is dispatched, go by the
operator, which PyTorch knows. Inputs that require a gradient go to autograd. All else takes the path of every call.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from types import FunctionType

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

    from ..plans import PreparedCall
    from ..records import Value
    from ..table import Foreign, Run

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
        found.before = f"(type({{a}}) is tensor or type({{a}}) is parameter) and {found.before}"
        found.once = "not modes() and forward_mode._current_level < 0"
        plain = {"tensor": torch.Tensor, "parameter": torch.nn.Parameter}
        found.names = {**found.names, **plain, "modes": _modes, "forward_mode": forward_mode}
        return found


def route(function: Callable[..., Foreign], traced: Callable[..., Foreign]) -> None:
    """Have calls of a kernel's function that need an operator go by `traced`, and torch.compile trace that instead."""
    kernel = KERNELS[function.__name__]
    by_operator = _by_operator(kernel, traced)

    def first(*call: Foreign) -> Foreign:
        """Make a call, the first perhaps; one that goes by the operator needs no driver."""
        if _concerned(kernel, call[: len(kernel.arrays)], call[-1]):
            return by_operator(*call)
        return Kernel.begin(kernel, *call)

    _trace_instead(function, traced)
    _trace_instead(first, by_operator)
    kinds[kernel.name] = partial(Routed, by_operator=by_operator)
    callers.pop(kernel.name, None)
    kernel.run = first


def _trace_instead(function: Callable[..., Foreign], traced: Callable[..., Foreign]) -> None:
    """Have torch.compile trace another function where it meets one.

    So it is with torch.jit. torch.compiler.substitute_in_graph would do it too, but loads all of torch._dynamo, which
    takes seconds, and cannot be told of a module that is loaded again.
    """
    made: Foreign = function
    made._torchdynamo_inline = traced  # noqa: SLF001 - see above


class Routed(Caller):
    """A kernel's calls, of which some go by its operator."""

    def __init__(self, kernel: Kernel, *, by_operator: Run) -> None:
        self._by_operator = by_operator
        super().__init__(kernel)

    def slow(
        self, arrays: Sequence[Foreign], scalars: Sequence[Foreign], keywords: tuple[Value, ...], stream: Foreign
    ) -> Foreign:
        """Run a call from its beginning, or by the operator."""
        if _concerned(self.kernel, arrays, stream):
            return self._by_operator(*arrays, *scalars, *keywords, stream)
        return super().slow(arrays, scalars, keywords, stream)

    def forget(self) -> None:
        """Begin anew."""
        super().forget()
        self._mark()

    def _enter(self, prepared: PreparedCall) -> None:
        super()._enter(prepared)
        self._mark()

    def _mark(self) -> None:
        """Have torch.compile trace the operator where it compiles the kernel's function itself, which calls `run`."""
        run = self.kernel.run
        if not isinstance(run, FunctionType):
            run = _as_function(self.dispatch)
        _trace_instead(run, self._by_operator)
        self.kernel.run = run


def _as_function(dispatch: Run) -> Run:
    """Return a function that calls a method."""

    def run(*call: Foreign) -> Foreign:
        return dispatch(*call)

    return run


def _by_operator(kernel: Kernel, traced: Callable[..., Foreign]) -> Run:
    """Return what is called as a kernel's `run`, and calls `traced`, which takes arguments by name and lists whole."""
    code = traced.__code__
    taken = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    parts: list[tuple[str, int, int]] = []  # name, where it begins, and of how many arrays it is, 0 for none
    place = 0
    for argument in kernel.arguments:
        if isinstance(argument, Array):
            parts.append((argument.name, place, len(argument.members)))
            place += len(argument.members) or 1
    rest = [*(scalar.name for scalar in kernel.scalars), *kernel.keywords, "stream"]
    parts += [(name, place + index, 0) for index, name in enumerate(rest)]
    parts = [part for part in parts if part[0] in taken]

    def by_operator(*call: Foreign) -> Foreign:
        named = {}
        for name, begin, several in parts:
            whole = [one for one in call[begin : begin + several] if one is not None] or None
            named[name] = whole if several else call[begin]
        return traced(**named)

    return by_operator


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
