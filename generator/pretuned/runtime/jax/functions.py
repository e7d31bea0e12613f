"""The kernels as functions of JAX: what a call brings is sorted, and goes to a function that is jitted once for it.

A function is made for each set of arrays, numbers and keywords, so that a call outside of `jit` costs what JAX's own
small functions cost.
"""

from __future__ import annotations

from itertools import compress

from ..adapters.adapter import kind_of
from ..errors import ArgumentTypeError, UnavailableError, qualified
from ..lists import listed, together
from ..plans import REMEMBERED, remember
from ..scalars import wrong_scalar
from ..table import KERNELS
from .handler import elsewhere
from .library import jax
from .transforms import Transformed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..records import Value
    from ..table import Array, Foreign, Kernel
    from .signature import Form

_PLAIN = frozenset({int, float, bool, str, complex, bytes, type(None)})
_functions: dict[str, JaxFunction] = {}


def call(
    name: str, arrays: Sequence[Foreign], scalars: Sequence[Foreign] = (), keywords: tuple[Value | None, ...] = ()
) -> Foreign:
    """Run a kernel and return its outputs; arrays come in launch order, None for an output.

    An output whose shape says what no input does is a jax.ShapeDtypeStruct.
    """
    function = _functions.get(name)
    if function is None:
        function = _functions[name] = JaxFunction(KERNELS[name])
    words = *arrays, *scalars, *keywords, None
    return listed(function.as_kernel, *words) if function.kernel.lists else function.run(*words)


class JaxFunction:
    """A kernel as a function of JAX. It has of `Kernel` what taking lists apart reads, and `run`."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.name = kernel, kernel.name
        self.arguments, self.scalars, self.keywords = kernel.arguments, kernel.scalars, kernel.keywords
        self.as_kernel: Foreign = self
        self._made: dict[object, Callable[..., tuple[Foreign, ...]]] = {}

    def run(self, *call: Foreign) -> Foreign:
        """Run a call: arrays, numbers, keywords; the stream is XLA's business."""
        count = len(self.kernel.arrays)
        arrays, numbers = call[:count], self._static(call[count:-1])
        told = tuple([None if array.role != "out" or one is None else _form(one) for array, one in self._of(arrays)])
        here = tuple([array.role != "out" and one is not None for array, one in self._of(arrays)])
        key = here, told, repr(numbers)
        made = self._made.get(key)
        if made is None:
            made = Transformed(self.kernel, here, told, numbers).function
            remember(self._made, key, made, REMEMBERED)
        return self._answer(self._called(made, list(compress(arrays, here)), here), here)

    def _of(self, arrays: Sequence[Foreign]) -> Iterator[tuple[Array, Foreign]]:
        return zip(self.kernel.arrays, arrays, strict=True)

    def _called(
        self, made: Callable[..., tuple[Foreign, ...]], given: Sequence[Foreign], here: Sequence[bool]
    ) -> Sequence[Foreign]:
        """Call a function of JAX; what it says of other libraries' arrays, and of other platforms, goes into words."""
        try:
            return made(*given)
        except jax.errors.JaxRuntimeError as error:
            if (message := elsewhere(self.kernel)) in str(error):
                raise UnavailableError(message) from None
            raise
        except TypeError as error:
            if isinstance(error, ArgumentTypeError):
                raise
            for array, one in zip(compress(self.kernel.arrays, here), given, strict=True):
                if not isinstance(one, (jax.Array, jax.typing.ArrayLike)):
                    hint = f"; pass jax.dlpack.from_dlpack({array.name})" if hasattr(one, "__dlpack__") else ""
                    raise ArgumentTypeError(
                        f"{qualified(self.name)}: {array.name}: expected an array of JAX, found {kind_of(one)}{hint}"
                    ) from None
            raise

    def _answer(self, outputs: Sequence[Foreign], here: Sequence[bool]) -> Foreign:
        """Return the outputs as a caller has them."""
        found = iter(outputs)
        results: list[Foreign] = []
        for array, given in zip(self.kernel.arrays, here, strict=True):
            if array.role != "in":
                results.append(next(found, None) if given or array.role == "out" else None)
        if self.kernel.lists:
            results = together(self.kernel, results)
        return results[0] if len(results) == 1 else tuple(results)

    def _static(self, numbers: Sequence[Foreign]) -> tuple[Foreign, ...]:
        """Return numbers and keywords as plain values, structs as their bytes; raises what is wrong with one."""
        names = [*(scalar.name for scalar in self.scalars), *self.keywords]
        dtypes = [scalar.dtype for scalar in self.scalars] + [""] * len(self.keywords)
        found = []
        for name, dtype, value in zip(names, dtypes, numbers, strict=True):
            if isinstance(value, jax.Array):
                raise ArgumentTypeError(f"{qualified(self.name)}: {name}: {_array_as_number(name, value)}")
            layout = self.kernel.layouts.get(dtype)
            if layout is not None:
                if not layout.packs(value):
                    raise wrong_scalar(self.kernel, dtypes[: len(self.scalars)], numbers[: len(self.scalars)])
                found.append(layout.packed(value))
            else:
                found.append(value if type(value) in _PLAIN or not hasattr(value, "item") else value.item())
        return tuple(found)


def _array_as_number(name: str, value: Foreign) -> str:
    """Return why an array cannot be a number: a launch packs numbers on the CPU."""
    if isinstance(value, jax.core.Tracer):
        return (
            f"expected a value that is known when JAX traces, found a traced one; name {name} in static_argnames of "
            "jax.jit, or fix it with functools.partial"
        )
    return f"expected a number, found an array of JAX; pass {name}.item(), which waits for it"


def _form(output: Foreign) -> Form:
    """Return dtype and shape of a jax.ShapeDtypeStruct, or of anything that has both."""
    return str(output.dtype), tuple(output.shape)
