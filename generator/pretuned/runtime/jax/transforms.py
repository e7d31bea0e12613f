"""A kernel's function of arrays alone, as JAX transforms it: the rule of its gradient, that of `vmap`, XLA's call.

From without: `jit`, so that a call in Python is cheap; the rule of the gradient; that of `vmap`; the call itself.
"""

from __future__ import annotations

import importlib

from ..checks import types_of
from ..errors import ArgumentError, ArgumentTypeError, qualified
from ..problem import read_by
from ..table import PACKAGE, sizeof
from ..types import DTYPES
from .library import jax
from .signature import ATTRIBUTE
from .tracing import trace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..gradients import Backward
    from ..table import Array, Foreign, Kernel
    from .signature import Form

    Arrays = tuple[Foreign, ...]

_WIDE = 8  # bytes of the numbers that JAX makes only where it was told to
_X64 = "JAX makes 64-bit types only after jax.config.update('jax_enable_x64', True)"


class Transformed:
    """A kernel with all fixed but the arrays' contents, dtypes and shapes: `function` of those that are given.

    `here` says which arrays are given, in launch order, and `told` what is said of outputs; `numbers` are the numbers,
    then the keywords. The function returns the arrays that are written, in launch order.
    """

    def __init__(
        self, kernel: Kernel, here: tuple[bool, ...], told: tuple[Form | None, ...], numbers: tuple[Foreign, ...]
    ) -> None:
        self.kernel, self.here, self.told = kernel, here, told
        self.scalars, self.keywords = numbers[: len(kernel.scalars)], numbers[len(kernel.scalars) :]
        self.given = [array for array, one in zip(kernel.arrays, here, strict=True) if one]
        self.written = [array for array in kernel.arrays if array.role == "out" or array in self.given]
        self.written = [array for array in self.written if array.role != "in"]
        self._batched = jax.custom_batching.custom_vmap(self._named())
        self._batched.def_vmap(self._vmap)
        self._whole = self._differentiable()
        self.function: Callable[..., Arrays] = jax.jit(self._whole, inline=True)

    def _named(self) -> Callable[..., Arrays]:
        """Return `_call` under the kernel's name, which profiles and traced programs show."""

        def named(*given: Foreign) -> Arrays:
            return self._call(*given)

        named.__name__ = named.__qualname__ = self.kernel.name
        return named

    def _call(self, *given: Foreign) -> Arrays:
        """Trace XLA's call of the kernel."""
        arrays = iter(zip(self.given, given, strict=True))
        forms = [self._form(*next(arrays)) if here else told for here, told in zip(self.here, self.told, strict=True)]
        try:
            signature = trace(self.kernel, forms, self.scalars, self.keywords)
        except ArgumentTypeError as error:
            types = {name for array in self.kernel.arrays for name in types_of(self.kernel, array.dtype)}
            if any(_wide(name) and name in str(error) for name in types) and not jax.config.jax_enable_x64:
                raise ArgumentTypeError(f"{error}; {_X64}") from None
            raise
        operands, kind = [array.name for array in self.given], _varying(given)
        results: list[Foreign] = []
        aliases: dict[int, int] = {}
        for array, form in zip(self.kernel.arrays, signature.arrays, strict=True):
            if array.role != "in" and form is not None:
                if array.role == "inout":
                    aliases[operands.index(array.name)] = len(results)
                results.append(self._result(array, form, kind))
        count = len(results)
        if signature.scratch_bytes:
            results.append(jax.ShapeDtypeStruct((signature.scratch_bytes,), jax.numpy.uint8, **kind))
        made = jax.ffi.ffi_call(qualified(self.kernel.name), results, input_output_aliases=aliases)
        return tuple(made(*given, **{ATTRIBUTE: signature.text})[:count])

    def _form(self, array: Array, given: Foreign) -> Form:
        """Return dtype and shape of an array; raises ArgumentError for a size that is not known yet."""
        for extent in given.shape:
            if not isinstance(extent, int):
                raise ArgumentError(
                    f"{qualified(self.kernel.name)}: {array.name}: expected sizes that are known when JAX traces, "
                    f"found {extent}; export a program for each size"
                )
        return str(given.dtype), tuple(given.shape)

    def _result(self, array: Array, form: Form, kind: dict[str, Foreign]) -> jax.ShapeDtypeStruct:
        """Return what an output is; raises ArgumentError for a type that JAX would narrow."""
        if _wide(form[0]) and not jax.config.jax_enable_x64:
            raise ArgumentError(f"{qualified(self.kernel.name)}: {array.name}: is of {form[0]}, and {_X64}")
        return jax.ShapeDtypeStruct(form[1], DTYPES[form[0]].numpy(), **kind)

    # vmap

    def _vmap(self, size: int, mapped: Sequence[bool], *given: Foreign) -> tuple[Arrays, tuple[bool, ...]]:
        """Add a leading dimension where the kernel takes any number of them; else run one call after another."""
        if self._leads(mapped):
            wide = [
                one if has or array.trailing is None else jax.numpy.broadcast_to(one, (size, *one.shape))
                for array, has, one in zip(self.given, mapped, given, strict=True)
            ]
            outputs = self._batched(*wide)
        else:

            def each(parts: Sequence[Foreign]) -> Arrays:
                part = iter(parts)
                taken = [next(part) if has else one for has, one in zip(mapped, given, strict=True)]
                found: Arrays = self._batched(*taken)
                return found

            outputs = jax.lax.map(each, [one for has, one in zip(mapped, given, strict=True) if has])
        return outputs, (True,) * len(outputs)

    def _leads(self, mapped: Sequence[bool]) -> bool:
        """Return whether a mapped dimension can be one more of the leading dimensions that arrays share.

        All that is mapped and all that is written has them, and no other array has their product in its shape.
        """
        arrays = dict.fromkeys([*self.given, *self.written])
        leading = {array.text.strip("(").partition(",")[0] for array in arrays if array.trailing is not None}
        fixed = [array for array in arrays if array.trailing is None]
        mapped_ones = [array for array, has in zip(self.given, mapped, strict=True) if has]
        return not (
            any(array in fixed for array in (*mapped_ones, *self.written))
            or any(leading & set(read_by(array.shape)) for array in fixed)
            or any(told is not None for told in self.told)
        )

    # Gradients

    def _differentiable(self) -> Foreign:
        """Return the function with the rule of its gradient; without one, with a rule that says so."""
        if self.kernel.backward is None:
            alone = jax.custom_jvp(self._batched)
            alone.defjvp(self._refuse, symbolic_zeros=True)
            return alone
        paired = jax.custom_vjp(self._batched)
        paired.defvjp(self._forward, self._backward, symbolic_zeros=True)
        return paired

    def _pair(self) -> Backward:
        assert self.kernel.backward is not None  # or no rule would ask
        return self.kernel.backward

    def _refuse(self, primals: Arrays, tangents: Arrays) -> tuple[Arrays, Arrays]:
        """Raise ArgumentError for a gradient through the kernel; integers have none to lose."""
        outputs = self._whole(*primals)
        zero = jax.custom_derivatives.SymbolicZero
        names = [array.name for array, one in zip(self.given, tangents, strict=True) if not isinstance(one, zero)]
        if names and any(jax.numpy.issubdtype(one.dtype, jax.numpy.inexact) for one in outputs):
            raise ArgumentError(
                f"{qualified(self.kernel.name)}: has no gradient, and one through {' and '.join(names)} is asked for; "
                f"pass jax.lax.stop_gradient({names[0]}), or write [backward] in its spec"
            )
        return outputs, tuple(map(_no_tangent, outputs))

    def _forward(self, *primals: Foreign) -> tuple[Arrays, Arrays]:
        """Run the kernel and return what its gradient reads besides."""
        backward = self._pair()
        inputs = [array for array in self.kernel.arrays if array.role != "out"]
        results = [array for array in self.kernel.arrays if array.role != "in"]
        computed = {inputs[index] for _, index in backward.outputs}
        for array, primal in zip(self.given, primals, strict=True):
            if primal.perturbed and array not in computed:
                raise ArgumentError(
                    f"{qualified(self.kernel.name)}: {array.name}: {backward.kernel} computes no gradient of it; "
                    f"pass jax.lax.stop_gradient({array.name})"
                )
        outputs: Arrays = self._whole(*(primal.value for primal in primals))  # which second derivatives go through
        values = {("input", array): primal.value for array, primal in zip(self.given, primals, strict=True)}
        values |= {("output", array): one for array, one in zip(self.written, outputs, strict=False)}
        places = {"input": inputs, "output": results}
        saved = [values.get((kind, places[kind][index])) for _, kind, index in backward.inputs if kind != "gradient"]
        return outputs, tuple(saved)

    def _backward(self, saved: Arrays, cotangents: Sequence[Foreign]) -> tuple[Foreign, ...]:
        """Return the gradient of each array that is given; None where there is none."""
        backward, kept = self._pair(), iter(saved)
        results = [array for array in self.kernel.arrays if array.role != "in"]
        outer = dict(zip(self.written, cotangents, strict=False))
        words: dict[str, Foreign] = {
            name: next(kept) if kind != "gradient" else _dense(outer[results[index]])
            for name, kind, index in backward.inputs
        }
        names = [*(scalar.name for scalar in self.kernel.scalars), *self.kernel.keywords]
        known = dict(zip(names, (*self.scalars, *self.keywords), strict=True))
        words |= {name: known[forward] for name, forward in backward.passed}
        found = getattr(importlib.import_module(f"{PACKAGE}.jax"), backward.kernel)(**words)
        found = found if isinstance(found, tuple) else (found,)
        inputs = [array for array in self.kernel.arrays if array.role != "out"]
        gradients = {inputs[index]: one for (_, index), one in zip(backward.outputs, found, strict=True)}
        return tuple(gradients.get(array) for array in self.given)


def _wide(dtype: str) -> bool:
    """Return whether JAX makes arrays of a type only where it was told to."""
    return DTYPES[dtype].kind != "bool" and sizeof(dtype) // DTYPES[dtype].parts >= _WIDE


def _no_tangent(output: Foreign) -> Foreign:
    """Return the tangent of an output that depends on nothing; integers have one of a type of their own."""
    if jax.numpy.issubdtype(output.dtype, jax.numpy.inexact):
        return jax.numpy.zeros_like(output)
    return importlib.import_module("numpy").zeros(output.shape, jax.dtypes.float0)


def _dense(cotangent: Foreign) -> Foreign:
    """Return a cotangent as an array; one that is known to be zero has none yet."""
    if isinstance(cotangent, jax.custom_derivatives.SymbolicZero):
        return jax.numpy.zeros(cotangent.shape, cotangent.dtype)
    return cotangent


def _varying(given: Sequence[Foreign]) -> dict[str, Foreign]:
    """Return how results differ between the devices of a mesh under `shard_map`: along the axes of all operands.

    JAX 0.11 has a type for that. It wants the mesh said as well (jax-ml/jax#38551).
    """
    types = [jax.typeof(one) for one in given]
    kinds = [getattr(one, "manual_axis_type", None) for one in types]
    axes = frozenset[str]().union(*(kind.varying for kind in kinds if kind is not None))
    axes = axes.union(*(getattr(one, "vma", ()) for one in types))
    if not axes:
        return {}
    manual = any(kind is not None for kind in kinds)
    found = {"manual_axis_type": jax.sharding.ManualAxisType(varying=axes)} if manual else {"vma": axes}
    mesh = jax.sharding.get_abstract_mesh()
    return {**found, "sharding": jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())}
