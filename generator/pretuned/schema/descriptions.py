"""What an editor shows beside each key, by model and key."""

from __future__ import annotations

from typing import Final

_SPACE: Final = (
    "The tuning parameters with their values, `block = [128, 256]` or `block = { from = 32, to = 1024, step = 32 }`: "
    "every combination is a configuration. Or a list of configurations, where only those are meant."
)
_SCRATCH: Final = "Buffers that the dispatcher provides for a call. Shapes may use parameters and `device`."
_TENSOR_MAPS: Final = (
    "Maps of arrays for the tensor memory accelerator (TMA), passed by value to launches that name them."
)
_SEEDS: Final = "Configurations that the search of a large space tries first."
_LAUNCHES: Final = "What is launched, in order, on one stream."
_CONSTRAINTS: Final = "Which configurations are legal, and what the kernel demands of a call."
_COMPILE: Final = "How the template is compiled."
_COST: Final = "What a call takes time for that its launches do not say: predictions weigh it by what is measured."
_TEMPLATE: Final = "The Jinja template: a file beside the spec, or, where it has several lines, the text itself."

DESCRIPTIONS: Final = {
    "KernelSpec.format": "The format of this file: 1.",
    "KernelSpec.summary": "One line on what the kernel computes; the generated function's docstring.",
    "KernelSpec.let": (
        "Derived names for expressions, the template and its arguments, each an expression that may read those above "
        "it: half = 'cols // 2'."
    ),
    "KernelSpec.arguments": "The kernel's arguments in launch order: arrays have a role, scalars none.",
    "KernelSpec.dims": "The problem sizes, by which calls find what to run. Each is read off a shape, or is a keyword.",
    "KernelSpec.problems": (
        "Joint sizes to measure, one table a problem, with a size for every dim that is not constant. Dims then need "
        "no sizes; where they have them, all combinations are measured as well. A table that names values of "
        "specialisations, too, is for these alone: T = 'float16'."
    ),
    "KernelSpec.structs": (
        "Structs that are passed by value, by name: the fields with their types, in order, { n = 'int32', "
        "strides = 'int64[4]' }. The template declares one by printing its name, '{{ Params }}'."
    ),
    "KernelSpec.specialisations": "What the caller chooses: types, read off the arrays, or keywords. Never tuned over.",
    "KernelSpec.constraints": _CONSTRAINTS,
    "KernelSpec.verify": "How results are judged. Without a reference the default's output is one.",
    "KernelSpec.backward": "The kernel of this kernel's gradient, for PyTorch and JAX. Changes nothing that is tuned.",
    "KernelSpec.cache": "How calls find the L2 cache: cold (their data lies in memory) or warm (it was just written).",
    "KernelSpec.default": (
        "The configuration that a careful author would hard-code, which a winner must beat. A value may depend on the "
        "problem, { at = '1024 if tokens < 256 else 256' }. With several implementations: `implementation = NAME`, "
        "the one whose default it is."
    ),
    "KernelSpec.template": f"{_TEMPLATE} Default: the spec's own stem with .cu.jinja.",
    "KernelSpec.scratch": _SCRATCH,
    "KernelSpec.tensor-maps": _TENSOR_MAPS,
    "KernelSpec.space": _SPACE,
    "KernelSpec.seeds": _SEEDS,
    "KernelSpec.launches": _LAUNCHES,
    "KernelSpec.compile": _COMPILE,
    "KernelSpec.cost": _COST,
    "KernelSpec.implementations": "Several ways to compute the kernel, by name; they compete in one table.",
    "ImplementationSpec.template": _TEMPLATE,
    "ImplementationSpec.call": "Instead of a template: a library's function, as in 'cupy:matmul'.",
    "ImplementationSpec.arguments": "With `call`: the inputs that the function is passed by position. Default: all.",
    "ImplementationSpec.out": (
        "With `call`: keyword (the function writes to `out=`), or copy (what it returns is assigned to the output)."
    ),
    "ImplementationSpec.init": "Outputs that this implementation wants zeroed before its launches.",
    "ImplementationSpec.scratch": _SCRATCH,
    "ImplementationSpec.tensor-maps": _TENSOR_MAPS,
    "ImplementationSpec.space": _SPACE,
    "ImplementationSpec.default": (
        "This implementation's own baseline; that of the kernel's default may depend on the problem, as there."
    ),
    "ImplementationSpec.seeds": _SEEDS,
    "ImplementationSpec.launches": _LAUNCHES,
    "ImplementationSpec.compile": _COMPILE,
    "ImplementationSpec.cost": _COST,
    "ImplementationSpec.constraints": "Which configurations of this implementation are legal.",
    "Argument.name": "The argument's name, in the template and in the generated function.",
    "Argument.dtype": "Its element type: float32, int32, ..., or a specialisation such as T.",
    "Argument.role": "in (must come back unchanged), out, or inout; without one it is a scalar, passed by value.",
    "Argument.shape": (
        "An array's shape, expressions over dims: ['rows', 'cols']. As 'rows...' the first is the product of any "
        "number of leading dims; 'rows[]' in a list is an extent of each array's own, and `rows` their sum."
    ),
    "Argument.strides": (
        "How far neighbours along each dim lie apart, in elements: ['x_stride', 1]. A name is what each call decides, "
        "an integer that `arguments` pass to the kernel; below named dims elements are contiguous, the last stride 1."
    ),
    "Argument.align": "Bytes that the address must be a multiple of, as in 'vec * sizeof(T)'; checked at the call.",
    "Argument.fill": (
        "What an input holds while tuning: normal, uniform, ones, integers, or a range, { from = 0, to = 'n - 1' }. "
        "Default: normal; of integers small ones, of uint8 0 to 255."
    ),
    "FillRange.from": "The least value: a number, or an expression over dims.",
    "FillRange.to": "The greatest value, itself included.",
    "Argument.value": (
        "What tuning passes for a scalar that is neither a dim nor a specialisation: a number, or an expression over "
        "dims and specialisations by value, 'cols - 1'; of a complex one also the two parts; for a "
        "struct a table of these. Default: `default`. Of two "
        "floating scalars of one dtype with one number, the second is passed as three quarters of it: a swap shows."
    ),
    "Argument.optional": (
        "true: a call may leave this array out, `in` or `inout`. The kernel gets a null pointer, and 'has_NAME' is a "
        "specialisation."
    ),
    "Argument.in-place": (
        "true: a call may pass an input as this output, one of its dtype and shape. Verified with each such input."
    ),
    "Argument.count": (
        "The dim that the number of arrays gives: the argument is a list of arrays, whose addresses are passed by "
        "value, as List<float*, 32>."
    ),
    "Argument.most": "The most arrays of a list, 1 to 256. Default: 32.",
    "Argument.each": (
        "Without a role: the dim 'rows' of which the arrays of lists have extents 'rows[]', which are passed by value, "
        "as List<int, 32>."
    ),
    "Argument.default": (
        "The scalar's default in the generated function: a call may leave it out. Of a complex one also the two parts."
    ),
    "Argument.init": "0: the dispatcher zeroes this output before the launch.",
    "Scratch.name": "The buffer's name among the launch's arguments.",
    "Scratch.dtype": "Its element type, or a specialisation.",
    "Scratch.shape": "Its shape: expressions over dims, parameters and `device`.",
    "Scratch.init": "0: zeroed before each call.",
    "TensorMapSpec.name": "The map's name among the launch's arguments: 'const __grid_constant__ CUtensorMap x_map'.",
    "TensorMapSpec.array": "The array that it is of, which has 1 to 5 dims.",
    "TensorMapSpec.box": (
        "The elements that one copy moves, 1 to 256 along each dim, in the order of the array's shape: ['bm', 'bk']."
    ),
    "TensorMapSpec.swizzle": (
        "How the bytes of a box lie in shared memory: none, 32B, 64B or 128B, which a box's row does not exceed."
    ),
    "TensorMapSpec.l2": "How much is brought into the L2 cache at once: none, 64B, 128B or 256B.",
    "TensorMapSpec.fill": "What a copy finds outside the array: zeros, or nan for floating types.",
    "Dim.sizes": "The sizes that are measured. At another size the selection decides, which is made when tuning.",
    "Dim.values": "With `constant = true`: the values that exist.",
    "Dim.keyword": "The call gives this dim as a keyword of the generated function: no input's shape tells it.",
    "Dim.constant": "Matched exactly and rendered into the template: each value has rows and a selection of its own.",
    "Specialisation.dtypes": "The types that the arrays may have.",
    "Specialisation.alike": (
        "'size': the kernel only moves elements, so types of one size share what is compiled and tuned, for the first "
        "of them that `dtypes` lists."
    ),
    "Specialisation.values": "The values of a keyword of the generated function: integers, bools or texts.",
    "Specialisation.from": (
        "The specialisation that this type follows, one of types or of texts; the other keys say how: "
        "Acc = { from = 'T', float16 = 'float32', float32 = 'float32' }."
    ),
    "LaunchSpec.function": 'The extern "C" entry point.',
    "LaunchSpec.grid": "Blocks along x, y and z: expressions over dims and parameters. 0 launches nothing.",
    "LaunchSpec.block": "Threads along x, y and z.",
    "LaunchSpec.shared": "Bytes of dynamic shared memory. Default: 0.",
    "LaunchSpec.arguments": "The names of its arguments, where it takes others than the list above.",
    "LaunchSpec.cluster": (
        "Blocks of a thread block cluster along x, y and z, of which the grid is a multiple: ['cluster_n']. Compute "
        "capability 9.0 and newer; where there is none, the configuration is passed over. Default: no clusters."
    ),
    "LaunchSpec.cooperative": (
        "true: all blocks of the grid are on the device at once, so that they may wait for each other. A configuration "
        "with more blocks than `device.resident_blocks` is passed over."
    ),
    "LaunchSpec.overlap": (
        "'pdl': a programmatic dependent launch, which may begin before what runs ahead of it on the stream has ended. "
        "The kernel executes griddepcontrol.wait before it reads or writes memory. Plain order before 9.0."
    ),
    "Compile.options": "Options for NVRTC; they may name parameters: '-maxrregcount={{ registers }}'.",
    "Compile.include": (
        "Folders of headers: the project's own, relative to the spec's folder (['include'], ['../include']), and those "
        "of installed packages ('package:nvidia-cutlass/cutlass_library/source/include'). What a source includes of "
        "them is part of its key, and ships with it."
    ),
    "Compile.arch-specific": "Compile for sm_90a instead of sm_90: code that runs on that architecture alone.",
    "Constraints.where": "What a legal configuration fulfils. One that names a dim is checked at each call as well.",
    "CostSpec.terms": (
        "Expressions over dims, parameters, specialisations and `device`, at least 0, that divide by numbers and "
        "parameters alone: ['ceil_div(k, bk)']."
    ),
    "Constraints.requires": (
        "What the kernel itself demands of a call, and of addresses: 'aligned(x, 8)'. Another call is an error that "
        "names it."
    ),
    "BackwardSpec.kernel": (
        "Another kernel of the package. Its inputs are inputs and outputs of this one by their names, and `grad_NAME` "
        "for the gradient of the output NAME; its outputs are `grad_NAME` for each input NAME that has a gradient. "
        "Numbers and keywords are handed on by their names."
    ),
    "BackwardSpec.names": (
        "What arguments of that kernel are that have other names: names = { dy = 'grad_y', dx = 'grad_x' }."
    ),
    "Verify.reference": "'reference.py:name': a NumPy function of those inputs, scalars and dims that it names.",
    "Verify.gpu-reference": (
        "'reference.py:name': the same function or another one, called with arrays of CuPy where problems are large; "
        "held to `reference` at a small one."
    ),
    "Verify.rtol": "Relative tolerance: one number for floating outputs, or a table by the output's dtype.",
    "Verify.atol": (
        "Absolute tolerance, as rtol; by default rtol times the root mean square of the reference, at least half of "
        "the dtype's smallest number, for integers 0: atol = { int8 = 1 }."
    ),
    "Verify.inputs": "'file.py:name': a function that makes the inputs.",
    "Verify.compare": "'file.py:name': a function that judges a result.",
    "ProjectTable.kernels": "The folder of specs and templates.",
    "ProjectTable.declarations": "A module of that folder which declares kernels in Python: kernels/declared.py.",
    "ProjectTable.torch": (
        "The namespace of the kernels' operators of PyTorch: torch.py is written into the package, for torch.compile, "
        "torch.export and autograd."
    ),
    "ProjectTable.jax": (
        "true: the generated package has a module `jax` as well: its functions for JAX, which work in jax.jit."
    ),
    "ProjectTable.module": "Where the generated package goes, by its path in the sources: src/mypkg/tuned.",
    "ProjectTable.modules": "Several generated packages, each with its own folder of specs.",
    "ProjectTable.lock": "The rows that were tuned; committed.",
    "ProjectTable.mode": (
        "auto: fresh rows are baked, missing ones for this GPU are tuned within the budget. locked: never tune, stale "
        "or missing is an error. force: tune everything anew. off: bake the defaults."
    ),
    "ProjectTable.budget": "Seconds of tuning, for the whole build.",
    "ProjectTable.cuda": "The NVRTC to compile with, as in 13.0; else the lock's, else the machine's.",
    "ProjectTable.architectures": "Architectures to build the defaults for, besides those of the lock's devices.",
    "ProjectTable.cubins": "false: ship sources only, compiled where they first run.",
    "ProjectTable.require-tuned": "A build that would ship untuned kernels is an error.",
    "ProjectTable.max-loss": (
        "The mean loss that a certificate may say at most: 0.02 is 2%. Tuning refines until it holds or the budget "
        "ends; `check` and builds fail where it does not. The host device is not held to it. Default: any."
    ),
    "ProjectTable.max-configurations": (
        "How many configurations ship at most for each specialisation and device, the default included: 2 to 32."
    ),
    "ProjectTable.devices": (
        "The GPUs of the machine that tune: all (one process each, and kinds beside each other), or one, as in cuda:1. "
        "PRETUNED_TUNE_ON and `--on` go before it."
    ),
    "ProjectTable.effort": (
        "How much is tried: fast (a fraction of the seconds, for work in progress), default, or thorough (all "
        "configurations where that can be done)."
    ),
    "ProjectTable.usage": (
        "A usage file (PRETUNED_USAGE writes it): problems weigh by how often they were called when configurations "
        "are chosen and certified."
    ),
    "ModuleEntry.kernels": "The folder of this module's specs and templates.",
    "ModuleEntry.declarations": "A module of this folder which declares kernels in Python.",
    "ModuleEntry.torch": "The namespace of this package's operators of PyTorch.",
    "ModuleEntry.jax": "true: this package has functions for JAX as well.",
    "ModuleEntry.module": "Where this generated package goes: src/mypkg/tuned.",
}

# Every environment variable: when it is read, and what it says. `config.settings` reads those of a build,
# `runtime.overrides` those of a call.
ENVIRONMENT: Final = {
    "PRETUNED_MODE": ("building", "The mode, before the table's: auto, locked, force or off."),
    "PRETUNED_TUNE_ON": (
        "building, `pretuned tune`",
        "What to tune on: auto (the table's `devices`), cuda (the first GPU), cuda:1, host, or another backend's name.",
    ),
    "PRETUNED_BUDGET": ("building, `pretuned tune`", "Seconds of tuning, before the table's."),
    "PRETUNED_CACHE_DIR": (
        "building, `pretuned tune`, run time",
        "The folder of the user cache. Default: the platform's cache folder.",
    ),
    "PRETUNED_EFFORT": ("building", "How much is tried, before the table's: fast, default or thorough."),
    "PRETUNED_PROGRESS": (
        "building, `pretuned tune`",
        "How a tuning shows its progress: auto (a display on a terminal, lines elsewhere), plain (lines) or off.",
    ),
    "CXX": ("the host device", "The C++ compiler. Default: g++, else clang++."),
    "PRETUNED_DEVICE": (
        "run time",
        (
            "The device whose rows are used: `NVIDIA H200`, or by package or kernel: "
            "`pkg.tuned:NVIDIA H200; pkg.tuned.kernel:...`."
        ),
    ),
    "PRETUNED_CONFIG": (
        "run time",
        "Configurations to run, among those that ship: `pkg.tuned.kernel:block=512,vec=4; other:...`.",
    ),
    "PRETUNED_TABLE": ("run time", "Another lock file as the table, over configurations that ship."),
    "PRETUNED_DEFAULTS": ("run time", "`1`: run defaults only. Or the packages and kernels to run the default of."),
    "PRETUNED_STRICT": (
        "run time",
        "`1`: running untuned is an error, and so is running by the rows of a device that is not like this one.",
    ),
    "PRETUNED_WARN": ("run time", "`0`: no warning about running untuned, or by such rows."),
    "PRETUNED_FAST_PATH": ("run time", "`0`: every call takes the slow path, which checks and decides anew."),
    "PRETUNED_USAGE": (
        "run time",
        "A file. The problems that the process called, with their counts, are appended to it at exit.",
    ),
}
