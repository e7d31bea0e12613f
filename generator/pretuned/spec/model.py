"""The kernel spec as data: format 1 of the TOML file, and the Python API that it is one loader of.

These models hold the structure (keys, kinds of value, the syntax of every expression). What relates one key to another
(names, the default against its space, guards) is the business of `pretuned.spec.check`. Every model is frozen.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import Field, StrictBool, Tag, model_validator

from pretuned.config.toml import TAG
from pretuned.runtime.records import Value
from pretuned.spec.expressions import Expression, LeadingDims, OwnExtent
from pretuned.spec.headers import plain
from pretuned.spec.launch import LaunchSpec
from pretuned.spec.let import substituted, written_out
from pretuned.spec.library import LibraryCall
from pretuned.spec.packages import is_of_package
from pretuned.spec.parts import (
    BackwardSpec,
    Compile,
    Constraints,
    CostSpec,
    Dim,
    FillRange,
    Model,
    NamedStride,
    Presence,
    Scratch,
    Specialisation,
    Verify,
    contiguous_stride,
    room,
)
from pretuned.spec.tensor_maps import TensorMapSpec, conditions
from pretuned.spec.values import (
    FILL_KINDS,
    DefaultValue,
    Expr,
    Extent,
    FillName,
    Joint,
    Most,
    Name,
    Parameter,
    ScalarValue,
    Space,
    TunedValue,
    TuningValue,
    Zero,
)

FORMAT: Final = 1
PLACED: Final = frozenset({"name", "folder", "declared"})  # what no document says of a spec
MAIN: Final = "main"  # the name of the implementation of a spec that has one


class Argument(Model):
    """One kernel argument: an array, if it has a role; else a scalar passed by value.

    `shape` is a tuple of expressions over dims; `align` the bytes the base address must be a multiple of; `fill` how an
    input is filled while tuning; `value` what tuning passes for a scalar that is not a dim; `default` what a call that
    leaves the scalar out passes; `init` what the dispatcher sets an output to before the launch (0); `in_place` whether
    a call's output may be one of its inputs; `optional` whether a call may leave an input out; `strides` how far apart,
    in elements, neighbours along each dim lie: a name, for what each call decides, or what is contiguous.

    An array with `count` is a list of at most `most` arrays, whose number is the dim `count`; a scalar with `each` are
    the extents that the arrays of lists have of that dim. The arrays of a list `a` are arguments `a[0]`, `a[1]`, ...
    """

    name: Name
    dtype: Name
    role: Literal["in", "out", "inout"] | None = None
    shape: tuple[Extent, ...] | None = None
    align: Expr | None = None
    fill: (
        Annotated[Annotated[FillName, Tag(f"{TAG}name")] | Annotated[FillRange, Tag(f"{TAG}range")], FILL_KINDS] | None
    ) = None
    value: TunedValue = None
    default: ScalarValue = None
    init: Zero = None
    in_place: StrictBool = False
    optional: StrictBool = False
    strides: tuple[Expr, ...] | None = None
    count: Name | None = None
    most: Most = 32
    each: Name | None = None

    @property
    def leading(self) -> LeadingDims | None:
        """The leading dims `rows...` of its shape, whose number is not fixed; None without."""
        first = (self.shape or (None,))[0]
        return first if isinstance(first, LeadingDims) else None

    @property
    def whole(self) -> str:
        """The name in the spec: that of its list for an array of one."""
        return self.name.partition("[")[0]

    @property
    def place(self) -> int:
        """The place of an array in its list; 0 for any other."""
        return int(self.name[len(self.whole) + 1 : -1] or 0)

    @property
    def own(self) -> tuple[str, ...]:
        """The dims of which each array of the list has an extent of its own."""
        return tuple(extent.python for extent in self.shape or () if isinstance(extent, OwnExtent))

    @property
    def members(self) -> tuple[Argument, ...]:
        """The arrays of a list; of any other array itself."""
        if self.count is None:
            return (self,)
        return tuple(self.model_copy(update={"name": f"{self.name}[{place}]"}) for place in range(self.most))

    @property
    def presence(self) -> str:
        """The name of the specialisation that says whether an optional array is there."""
        return f"has_{self.name}"

    @property
    def passed(self) -> TuningValue | None:
        """What tuning passes for a scalar: `value`, or else `default`."""
        return self.default if self.value is None else self.value


class ImplementationSpec(Model):
    """One way to compute a kernel: a template with its space and default, or a library call.

    A space is a product, or a list of configurations. `init` names outputs that this implementation wants zeroed before
    its launches; `seeds` are configurations that a search of a large space tries first.

    A library call names its function in `target` (in TOML `call = "cupy:matmul"`), and may name `arguments` and `out`
    as `LibraryCall` does; it has constraints and cost, and nothing else.
    """

    target: Name | None = Field(default=None, alias="call")
    arguments: tuple[Name, ...] | None = None
    out: Literal["keyword", "copy"] = "keyword"

    template: Name = ""
    init: tuple[Name, ...] = ()
    scratch: tuple[Scratch, ...] = ()
    tensor_maps: tuple[TensorMapSpec, ...] = ()
    space: Space = Field(default_factory=dict)
    default: dict[str, DefaultValue] = Field(default_factory=dict)
    seeds: tuple[dict[str, Parameter], ...] = ()
    launches: tuple[LaunchSpec, ...] = ()
    compile: Compile = Compile()
    constraints: Constraints = Constraints()
    cost: CostSpec = CostSpec()

    @property
    def parameters(self) -> frozenset[str]:
        """The names of its tuning parameters."""
        return frozenset().union(*([self.space] if isinstance(self.space, dict) else self.space))

    @property
    def call(self) -> LibraryCall | None:
        """The library function that computes the kernel; None for a template."""
        if self.target is None:
            return None
        module, _, function = self.target.partition(":")
        return LibraryCall(module=module, function=function, arguments=self.arguments or (), out=self.out)


class KernelSpec(Model):
    """A kernel spec. `name` and `folder` come from where the file stands; `declared` is a place in a module, if so."""

    name: Name = Field(exclude=True)
    folder: Path = Field(default=Path(), exclude=True)
    declared: Name = Field(default="", exclude=True)

    format: Literal[1] = 1
    summary: Name = ""
    let: dict[str, Expr] = Field(default_factory=dict)
    arguments: Annotated[tuple[Argument, ...], Field(min_length=1)]
    dims: dict[str, Dim] = Field(default_factory=dict)
    structs: dict[str, dict[str, Name]] = Field(default_factory=dict)
    problems: tuple[dict[str, Joint], ...] = ()
    specialisations: dict[str, Specialisation] = Field(default_factory=dict)
    constraints: Constraints = Constraints()
    verify: Verify = Verify()
    backward: BackwardSpec | None = None
    cache: Literal["cold", "warm"] = "cold"
    default: dict[str, DefaultValue] = Field(default_factory=dict)

    template: Name | None = None
    scratch: tuple[Scratch, ...] = ()
    tensor_maps: tuple[TensorMapSpec, ...] = ()
    space: Space = Field(default_factory=dict)
    seeds: tuple[dict[str, Parameter], ...] = ()
    launches: tuple[LaunchSpec, ...] = ()
    compile: Compile = Compile()
    cost: CostSpec = CostSpec()

    implementations: dict[str, ImplementationSpec] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _with_presences(self) -> Self:
        """Add the specialisations of optional arrays, but where the spec has one of that name, which is a fault."""
        if added := {one.presence: Presence() for one in self.arguments if one.optional and one.role is not None}:
            self.__dict__["specialisations"] = {**added, **self.specialisations}
        return self

    @model_validator(mode="after")
    def _with_counts(self) -> Self:
        """Demand of the number of arrays in a list what the kernel has room for."""
        if added := room([(one.count, one.most) for one in self.lists], self.dims):
            kept = self.constraints.model_copy(update={"requires": (*self.constraints.requires, *added)})
            self.__dict__["constraints"] = kept
        return self

    @model_validator(mode="after")
    def _without_derived_names(self) -> Self:
        """Write the definitions of [let] out wherever they are read; `let` itself stays as it is written."""
        if self.let:
            read = {name: getattr(self, name) for name in type(self).model_fields.keys() - {"let", *PLACED}}
            self.__dict__.update(substituted(read, self.derived))
        return self

    @cached_property
    def derived(self) -> dict[str, Expression]:
        """What each name of [let] stands for, over dims, specialisations, parameters and the device."""
        spaces = [self.space, *(one.space for one in self.implementations.values())]
        rows = [row for listed in spaces for row in ([listed] if isinstance(listed, dict) else listed)]
        return written_out(self.let, {name for table in (self.dims, self.specialisations, *rows) for name in table})

    @property
    def file(self) -> str:
        """The name that messages give the spec."""
        return self.declared or f"{self.name}.toml"

    @cached_property
    def all_implementations(self) -> dict[str, ImplementationSpec]:
        """The implementations by name, in sorted order; a spec without the table has one, `main`."""
        if self.implementations:
            return {name: self._completed(one) for name, one in sorted(self.implementations.items())}
        main = ImplementationSpec(
            template=self.template or f"{self.name}.cu.jinja",
            scratch=self.scratch,
            tensor_maps=self.tensor_maps,
            space=self.space,
            default=self.default,
            seeds=self.seeds,
            launches=self.launches,
            compile=self.compile,
            constraints=Constraints(where=self.constraints.where),
            cost=self.cost,
        )
        return {MAIN: self._completed(main)}

    @cached_property
    def include_folders(self) -> tuple[Path, ...]:
        """The project's folders of headers that implementations name, sorted, without `..` in their paths."""
        named = {name for one in self.all_implementations.values() for name in one.compile.include}
        return tuple(sorted(plain(self.folder / name) for name in named if not is_of_package(name)))

    def _completed(self, implementation: ImplementationSpec) -> ImplementationSpec:
        """Return `implementation` with what its tensor maps ask, or all inputs for a library call that names none."""
        if implementation.tensor_maps:
            known = {*self.dims, *self.specialisations, *self.stride_names, *implementation.parameters}
            where = (*implementation.constraints.where, *conditions(implementation.tensor_maps, self.arrays, known))
            return implementation.model_copy(update={"constraints": Constraints(where=where)})
        if implementation.target is None or implementation.arguments is not None:
            return implementation
        return implementation.model_copy(update={"arguments": tuple(argument.name for argument in self.inputs)})

    @property
    def default_implementation(self) -> str:
        """The name of the implementation whose default is the kernel's default."""
        if not self.implementations:
            return MAIN
        chosen = self.default.get("implementation")
        return chosen if isinstance(chosen, str) else min(self.implementations)

    @cached_property
    def arrays(self) -> tuple[Argument, ...]:
        """The arrays that a call may bring, in launch order: of a list those that it may have."""
        return tuple(one for argument in self.arguments if argument.role is not None for one in argument.members)

    @cached_property
    def lists(self) -> tuple[Argument, ...]:
        """The lists of arrays."""
        return tuple(argument for argument in self.arguments if argument.role is not None and argument.count)

    def whole(self, arrays: Iterable[Argument]) -> tuple[Argument, ...]:
        """Return arrays as the spec has them: a list once."""
        lists = {one.name: one for one in self.lists}
        return tuple(dict.fromkeys(lists.get(array.whole, array) for array in arrays))

    @cached_property
    def inputs(self) -> tuple[Argument, ...]:
        """The arrays that a call must bring: roles `in` and `inout`."""
        return tuple(argument for argument in self.arrays if argument.role != "out")

    @cached_property
    def outputs(self) -> tuple[Argument, ...]:
        """The arrays that a call writes: roles `out` and `inout`."""
        return tuple(argument for argument in self.arrays if argument.role != "in")

    @cached_property
    def required_inputs(self) -> tuple[Argument, ...]:
        """The inputs that no call leaves out."""
        return tuple(argument for argument in self.inputs if not argument.optional)

    def absent(self, specialisation: Iterable[tuple[str, Value]]) -> tuple[Argument, ...]:
        """Return the optional arrays that calls of a specialisation leave out."""
        known = dict(specialisation)
        return tuple(array for array in self.arrays if array.optional and not known.get(array.presence, True))

    def in_place_of(self, output: Argument) -> tuple[Argument, ...]:
        """Return the inputs that an output may be at a call: of its dtype and shape, and not written themselves."""
        apart = {stride.argument for stride in self.stride_names.values()}
        kind = ("in", output.dtype, output.shape) if output.in_place and output.name not in apart else ()
        return tuple(one for one in self.arrays if (one.role, one.dtype, one.shape) == kind and one.name not in apart)

    @cached_property
    def scalars(self) -> tuple[Argument, ...]:
        """The values that a call must bring: scalars that are neither a dim nor a specialisation, nor derived."""
        known = {*self.dims, *self.specialisations, *self.let, *self.stride_names}
        numbers = (argument for argument in self.arguments if argument.role is None and argument.each is None)
        return tuple(argument for argument in numbers if argument.name not in known)

    @cached_property
    def stride_names(self) -> dict[str, NamedStride]:
        """The strides that calls decide, by name; the first where a name is given twice."""
        known, found = {*self.dims, *self.specialisations}, dict[str, NamedStride]()
        for one in (array for array in self.arrays if array.count is None):
            for axis, entry in enumerate(one.strides or ()):
                if entry.python.isidentifier() and entry.python not in known:
                    contiguous = contiguous_stride(one.shape or (), axis)
                    found.setdefault(entry.python, NamedStride(argument=one.name, axis=axis, contiguous=contiguous))
        return found

    @cached_property
    def free_dims(self) -> dict[str, Dim]:
        """The dims that may have any size, by sorted name."""
        return {name: dim for name, dim in sorted(self.dims.items()) if not dim.constant}

    @cached_property
    def constant_dims(self) -> dict[str, Dim]:
        """The dims that are matched exactly and rendered into the template, by sorted name."""
        return {name: dim for name, dim in sorted(self.dims.items()) if dim.constant}
