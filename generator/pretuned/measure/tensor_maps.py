"""The tensor maps of a candidate at a problem, or why there are none; the bytes of one at an address."""

from __future__ import annotations

from dataclasses import dataclass

from pretuned.compile.gpu_only import GPU_ONLY
from pretuned.runtime.driver import Driver
from pretuned.runtime.records import Value
from pretuned.runtime.tensor_maps import MAPS_FROM, encoder, misfit
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, DeviceFacts, Problem, dtype_of, shape_of
from pretuned.spec.strides import names_of


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundMap:
    """A tensor map of an array at a problem; `shape`, `strides` and `box` outermost first, the rest as in a spec.

    `strides` are those that have names, in elements.
    """

    name: str
    array: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: str
    l2: str
    fill: str
    written: bool

    def encoded(self, driver: Driver, address: int) -> bytes:
        """Return the map for the array at an address; raises DriverError."""
        return encoder(
            driver,
            dtype=self.dtype,
            shape=self.shape,
            strides=self.strides,
            box=self.box,
            modes=(self.swizzle, self.l2, self.fill),
        )(address)


def bound_maps(
    spec: KernelSpec, problem: Problem, configuration: Configuration, values: dict[str, Value], device: DeviceFacts
) -> list[BoundMap] | str:
    """Return the tensor maps of `configuration`, or why the device does not take them; raises ExpressionError."""
    listed = spec.all_implementations[configuration.implementation].tensor_maps
    if listed and device.one_by_one:
        return f"{GPU_ONLY}: tensor maps"
    if listed and device.compute_capability < MAPS_FROM:
        here = f"{device.compute_capability / 10:.1f}"
        return f"tensor maps need compute capability {MAPS_FROM / 10:.1f}; this device has {here}"
    arguments, found = {array.name: array for array in spec.arrays}, []
    for one in listed:
        bound = BoundMap(
            name=one.name,
            array=one.array,
            dtype=dtype_of(spec, arguments[one.array].dtype, problem.specialisation),
            shape=shape_of(arguments[one.array], values),
            strides=tuple(int(values[name]) for name in names_of(spec, arguments[one.array])),
            box=tuple(extent.evaluate(values) for extent in one.box),
            swizzle=one.swizzle,
            l2=one.l2,
            fill=one.fill,
            written=arguments[one.array].role != "in",
        )
        asked = bound.dtype, bound.shape, bound.box, bound.swizzle, bound.strides
        if (reason := misfit(*asked, written=bound.written)) is not None:
            return f"the tensor map '{one.name}' has {reason}"
        found.append(bound)
    return found
