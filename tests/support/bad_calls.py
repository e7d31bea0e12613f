"""A table of wrong calls: name, kind of error, call, message. Calls are made on a `Session` of test_bad_calls.py."""

# fmt: off

import types

import numpy as np

from fake_cupy import external

A, B, C = "pkg.tuned.affine: ", "pkg.tuned.accumulate: ", "pkg.tuned.numbers: "
ARRAY = "expected an array on the GPU (CuPy, PyTorch, or one with __cuda_array_interface__ or __dlpack__), found"
INTERFACE = "expected a __cuda_array_interface__ with shape, data and a typestr such as '<f4', found"
STREAM = "expected a CuPy or PyTorch stream, an object with __cuda_stream__, a handle, or None, found"
MOVE_X, MOVE_Y = (f"move it with cupy.asarray({name}) or torch.as_tensor({name}, device='cuda')" for name in "xy")
OVERLAP = ", and an array that is written must not overlap another argument; pass "
STRIDES = "expected a C-contiguous array, found strides"
RECORDED = "requires a gradient, and autograd does not record this call; pass"
FLOAT32, INT32 = "(a number up to 3.4e38)", "(an integer from -2147483648 to 2147483647)"
UINT64 = "(an integer from 0 to 18446744073709551615)"
SHIPPED = "block=1024, vec=1; block=128, vec=1; block=128, vec=4; block=64, vec=1; block=64, vec=2; block=64, vec=4"
SHIPS = f"{SHIPPED}. To ship another, build with `pretuned bake --with"
TABLE = "the table has no device 'H100'; known are NVIDIA A100-SXM4-40GB, NVIDIA H100 80GB HBM3"
NONE_LEFT = "no configuration can run this call (cols=16777216, rows=1)"
UNALIGNED = "x is not aligned to 16 bytes"
LAST = "passed over block=128, vec=1: a grid of 131072 blocks along y, and 0 to 65535 are possible"
BEYOND = f"passed over block=64, vec=4: a grid of 65536 blocks along y, and 0 to 65535 are possible; {LAST}"
SMALL = {"rows": 1, "cols": 1, "T": "float32", "relu": False}
EVENT = types.SimpleNamespace(ptr=5)  # CuPy's events and memory have a ptr, as its streams have


def facts(shape=(16, 1024), typestr="<f4", **more):
    """An array of another library, by its CUDA array interface."""
    return external({"shape": shape, "typestr": typestr, "data": (1 << 44, False), "version": 3} | more)


class OnCpu:
    """An array on the CPU."""

    def __dlpack__(self, **_options):
        raise AssertionError("the runtime took an array in from the CPU")

    def __dlpack_device__(self):
        return 1, 0


class OnGpu:
    """An array that is read through DLPack, as `found`, if it can be read."""

    def __init__(self, found):
        self.found = found

    def __dlpack__(self, **_options):
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    def __dlpack_device__(self):
        return 2, 0


def aligned_to_4(m):
    with m.tuned.using(affine={"block": 128, "vec": 4}):
        m.affine(m.array((1, 2**24), "float32", offset=4), y=None)


BOTH = [
    # No array on a GPU.
    ("None", TypeError, lambda m: m.tuned.affine(None, 1.0, relu=False),
     f"{A}x: {ARRAY} None"),
    ("a number", TypeError, lambda m: m.affine(5),
     f"{A}x: {ARRAY} int"),
    ("a list", TypeError, lambda m: m.affine([[1.0]]),
     f"{A}x: {ARRAY} list"),
    ("a class", TypeError, lambda m: m.affine(OnGpu),
     f"{A}x: {ARRAY} the class bad_calls.OnGpu"),
    ("NumPy", TypeError, lambda m: m.affine(np.zeros((16, 1024), "f4")),
     f"{A}x: {ARRAY} numpy.ndarray; {MOVE_X}"),
    ("NumPy to write", TypeError, lambda m: m.affine(y=np.zeros((16, 1024), "f4")),
     f"{A}y: {ARRAY} numpy.ndarray; {MOVE_Y}"),
    ("a number to write", TypeError, lambda m: m.affine(y=0),
     f"{A}y: {ARRAY} int"),
    ("None to change", TypeError, lambda m: m.tuned.accumulate(None, m.rows),
     f"{B}total: {ARRAY} None"),
    ("DLPack on the CPU", TypeError, lambda m: m.affine(OnCpu()),
     f"{A}x: {ARRAY} bad_calls.OnCpu; {MOVE_X}"),
    # Through DLPack and the CUDA array interface.
    ("DLPack, unreadable", TypeError, lambda m: m.affine(OnGpu(BufferError("its type is unknown"))),
     f"{A}x: a bad_calls.OnGpu is read through DLPack, and cupy cannot: its type is unknown"),
    ("DLPack, dtype", TypeError, lambda m: m.affine(OnGpu(m.array((16, 1024), "int8"))),
     f"{A}x: expected dtype float16 or float32, found int8"),
    ("interface, dtype", TypeError, lambda m: m.affine(facts(typestr="<f8")),
     f"{A}x: expected dtype float16 or float32, found float64"),
    ("interface, no dtype of ours", TypeError, lambda m: m.affine(facts(typestr="<M8")),
     f"{A}x: expected dtype float16 or float32, found <M8"),
    ("interface, byte order", TypeError, lambda m: m.affine(facts(typestr=">f4")),
     f"{A}x: expected dtype float16 or float32, found >f4"),
    ("interface, typestr", TypeError, lambda m: m.affine(facts(typestr="f4")),
     f"{A}x: {INTERFACE} {{'shape': (16, 1024), 'typestr': 'f4', 'data': (17592186044416, False), 'version': 3}}"),
    ("interface, incomplete", TypeError, lambda m: m.affine(external({"shape": (16, 1024)})),
     f"{A}x: {INTERFACE} {{'shape': (16, 1024)}}"),
    ("interface, strides", ValueError, lambda m: m.affine(facts(strides=(8192, 4))),
     f"{A}x: {STRIDES} (8192, 4) in bytes for shape (16, 1024); copy it with its library"),
    ("interface, shape", ValueError, lambda m: m.affine(y=facts(shape=(16, 1000))),
     f"{A}y: expected shape (rows, cols) = (16, 1024), found (16, 1000)"),
    ("interface, no memory of a GPU", ValueError, lambda m: m.affine(facts(data=(16, False))),
     f"{A}x: expected memory of a GPU, found the address 0x10 (cuPointerGetAttribute: CUresult 1)"),
    ("interface, read-only", ValueError, lambda m: m.affine(y=facts(data=(1 << 44, True))),
     (f"{A}y: expected an array that may be written, found a read-only one; "
     "pass another, such as a copy")),
    # Types.
    ("dtype", TypeError, lambda m: m.affine(m.array((16, 1024), "float64")),
     f"{A}x: expected dtype float16 or float32, found float64"),
    ("integers", TypeError, lambda m: m.affine(m.array((16, 1024), "int32")),
     f"{A}x: expected dtype float16 or float32, found int32"),
    ("complex numbers", TypeError, lambda m: m.affine(m.array((16, 1024), "complex64")),
     f"{A}x: expected dtype float16 or float32, found complex64"),
    ("dtype of the output", TypeError, lambda m: m.affine(y=m.array((16, 1024), "float16")),
     f"{A}y: expected dtype float32 (T), found float16"),
    ("dtype that is fixed", TypeError, lambda m: m.accumulate(m.array((2,), "int32")),
     f"{B}total: expected dtype float32, found int32"),
    ("dtype that is fixed, read", TypeError, lambda m: m.accumulate(x=m.array((9, 2), "float64")),
     f"{B}x: expected dtype float32, found float64"),
    # Shapes.
    ("too few dimensions", ValueError, lambda m: m.affine(m.array((16384,), "float32")),
     f"{A}x: expected 2 dimensions (rows, cols), found 1: (16384,)"),
    ("too many dimensions", ValueError, lambda m: m.affine(m.array((1, 16, 1024), "float32")),
     f"{A}x: expected 2 dimensions (rows, cols), found 3: (1, 16, 1024)"),
    ("no dimension", ValueError, lambda m: m.numbers(m.array((), "float32")),
     f"{C}x: expected 1 dimension (n,), found 0: ()"),
    ("a matrix for a vector", ValueError, lambda m: m.numbers(m.array((1, 1024), "float32")),
     f"{C}x: expected 1 dimension (n,), found 2: (1, 1024)"),
    ("a matrix for a vector to write", ValueError, lambda m: m.numbers(y=m.array((1024, 1), "float32")),
     f"{C}y: expected 1 dimension (n,), found 2: (1024, 1)"),
    ("shape of the output", ValueError, lambda m: m.affine(y=m.array((16, 1000), "float32")),
     f"{A}y: expected shape (rows, cols) = (16, 1024), found (16, 1000)"),
    ("shape, transposed", ValueError, lambda m: m.affine(y=m.array((1024, 16), "float32")),
     f"{A}y: expected shape (rows, cols) = (16, 1024), found (1024, 16)"),
    ("too short an output", ValueError, lambda m: m.numbers(y=m.array((1023,), "float32")),
     f"{C}y: expected shape (n,) = (1024,), found (1023,)"),
    ("shape of an input", ValueError, lambda m: m.accumulate(m.array((4,), "float32")),
     f"{B}x: expected shape (n, lanes) = (9, 4), found (9, 2)"),
    ("a fixed shape", ValueError, lambda m: m.accumulate(last=m.array((2,), "float32")),
     f"{B}last: expected shape (1,) = (1,), found (2,)"),
    ("a constant dim", ValueError, lambda m: m.accumulate(m.array((3,), "float32"), m.array((9, 3), "float32")),
     f"{B}not shipped for lanes=3 of total; shipped are lanes=2; lanes=4"),
    ("what the kernel requires", ValueError, lambda m: m.affine(m.array((16, 0), "float32"), y=None),
     f"{A}requires cols >= 1, found cols=0 of x"),
    ("rows over int32", ValueError, lambda m: m.affine(m.array((2**31, 1), "float32"), y=None),
     f"{A}rows of x: expected at most 2147483647 (int32), found 2147483648"),
    ("columns over int32", ValueError, lambda m: m.affine(m.array((1, 2**32 + 1024), "float32"), y=None),
     f"{A}cols of x: expected at most 2147483647 (int32), found 4294968320"),
    ("n over int32", ValueError, lambda m: m.accumulate(x=m.array((2**31, 2), "float32")),
     f"{B}n of x: expected at most 2147483647 (int32), found 2147483648"),
    ("n over int64's half", ValueError, lambda m: m.accumulate(x=m.array((2**62, 2), "float32")),
     f"{B}n of x: expected at most 2147483647 (int32), found 4611686018427387904"),
    # Memory.
    ("no configuration left", ValueError, lambda m: m.affine(m.array((1, 2**24), "float32"), y=None),
     f"{A}{NONE_LEFT}: {BEYOND}"),
    ("alignment, and no configuration left", ValueError, aligned_to_4,
     f"{A}{NONE_LEFT}: passed over block=128, vec=4: {UNALIGNED}; passed over block=64, vec=4: {UNALIGNED}; {LAST}"),
    ("alignment of the output", ValueError, lambda m: m.numbers(y=m.array((1024,), "float32", offset=1)),
     (f"{C}y: expected an address that is a multiple of 4 bytes (float32), found one 1 byte beyond; "
     "pass another array as y, or none")),
    ("output is input", ValueError, lambda m: m.affine(y=m.x),
     f"{A}y: shares memory with x{OVERLAP}another array as y, or none"),
    ("output begins in input", ValueError, lambda m: m.affine(y=m.beside(m.x, 65532)),
     f"{A}y: shares memory with x{OVERLAP}another array as y, or none"),
    ("output ends in input", ValueError, lambda m: m.affine(y=m.beside(m.x, -65532)),
     f"{A}y: shares memory with x{OVERLAP}another array as y, or none"),
    ("changed is read", ValueError, lambda m: m.accumulate(m.beside(m.rows, 4, (2,))),
     f"{B}total: shares memory with x{OVERLAP}a copy of x"),
    ("two outputs", ValueError, lambda m: m.accumulate(last=m.beside(m.total, 4, (1,))),
     f"{B}total: shares memory with last{OVERLAP}another array as last, or none"),
    # Keywords.
    ("keyword", ValueError, lambda m: m.affine(relu="yes"),
     f"{A}relu: expected one of False, True, found 'yes'"),
    ("keyword, None", ValueError, lambda m: m.affine(relu=None),
     f"{A}relu: expected one of False, True, found None"),
    ("keyword, a number", ValueError, lambda m: m.affine(relu=2),
     f"{A}relu: expected one of False, True, found 2"),
    ("keyword, a list", ValueError, lambda m: m.affine(relu=[True]),
     f"{A}relu: expected one of False, True, found [True]"),
    ("keyword, an array", ValueError, lambda m: m.affine(relu=np.array([True, False])),
     f"{A}relu: expected one of False, True, found array([ True, False])"),
    ("keyword on the GPU", ValueError, lambda m: m.affine(relu=m.array((), "bool")),
     f"{A}relu: expected one of False, True, found an array on the GPU"),
    # Numbers.
    ("number, text", TypeError, lambda m: m.affine(alpha="2"),
     f"{A}alpha: expected float32 {FLOAT32}, found '2'"),
    ("number, None", TypeError, lambda m: m.affine(alpha=None),
     f"{A}alpha: expected float32 {FLOAT32}, found None"),
    ("number, a list", TypeError, lambda m: m.affine(alpha=[1.0]),
     f"{A}alpha: expected float32 {FLOAT32}, found [1.0]"),
    ("number, complex", TypeError, lambda m: m.affine(alpha=1 + 1j),
     f"{A}alpha: expected float32 {FLOAT32}, found (1+1j)"),
    ("number on the GPU", TypeError, lambda m: m.affine(alpha=m.array((), "float32")),
     f"{A}alpha: expected a number, found an array on the GPU; pass alpha.item(), which waits for the GPU"),
    ("number over float32", ValueError, lambda m: m.affine(alpha=1e300),
     f"{A}alpha: expected float32 {FLOAT32}, found 1e+300"),
    ("number over float64", ValueError, lambda m: m.numbers(beta=10**400),
     f"{C}beta: expected float64 (a number up to 1.8e308), found 1{'0' * 79}..."),
    ("float for int32", TypeError, lambda m: m.numbers(count=1.0),
     f"{C}count: expected int32 {INT32}, found 1.0"),
    ("text for int32", TypeError, lambda m: m.numbers(count="3"),
     f"{C}count: expected int32 {INT32}, found '3'"),
    ("int32 too large", ValueError, lambda m: m.numbers(count=2**31),
     f"{C}count: expected int32 {INT32}, found 2147483648"),
    ("int32 too small", ValueError, lambda m: m.numbers(count=-(2**31) - 1),
     f"{C}count: expected int32 {INT32}, found -2147483649"),
    ("int32 on the GPU", TypeError, lambda m: m.numbers(count=m.array((), "int32")),
     f"{C}count: expected a number, found an array on the GPU; pass count.item(), which waits for the GPU"),
    ("uint64 negative", ValueError, lambda m: m.numbers(offset=-1),
     f"{C}offset: expected uint64 {UINT64}, found -1"),
    ("uint64 too large", ValueError, lambda m: m.numbers(offset=2**64),
     f"{C}offset: expected uint64 {UINT64}, found 18446744073709551616"),
    ("text for bool", TypeError, lambda m: m.numbers(flag="no"),
     f"{C}flag: expected bool (True or False), found 'no'"),
    ("2 for bool", ValueError, lambda m: m.numbers(flag=2),
     f"{C}flag: expected bool (True or False), found 2"),
    ("a list for bool", TypeError, lambda m: m.numbers(flag=[]),
     f"{C}flag: expected bool (True or False), found []"),
    # Streams.
    ("stream, text", TypeError, lambda m: m.affine(stream="7"),
     f"{A}stream: {STREAM} str"),
    ("stream, a float", TypeError, lambda m: m.affine(stream=7.0),
     f"{A}stream: {STREAM} float"),
    ("stream, a bool", TypeError, lambda m: m.affine(stream=True),
     f"{A}stream: {STREAM} bool"),
    ("stream, an event", TypeError, lambda m: m.affine(stream=EVENT),
     f"{A}stream: {STREAM} types.SimpleNamespace"),
    ("stream, negative", ValueError, lambda m: m.affine(stream=-1),
     f"{A}stream: expected a handle from 0 to 0xffffffffffffffff, found -0x1"),
    ("stream, no handle", ValueError, lambda m: m.affine(stream=2**64),
     f"{A}stream: expected a handle from 0 to 0xffffffffffffffff, found 0x10000000000000000"),
    ("stream of another device", TypeError, lambda m: m.affine(stream=m.stream(5, 1)),
     f"{A}stream: expected device 0 as the arrays have, found device 1"),
    # bind.
    ("bind, dtype", TypeError, lambda m: m.tuned.affine.bind(m.array((16, 1024), "int8"), 1.0, relu=False),
     f"{A}x: expected dtype float16 or float32, found int8"),
    ("bind, overlap", ValueError, lambda m: m.tuned.affine.bind(m.x, 1.0, relu=False, y=m.x),
     f"{A}y: shares memory with x{OVERLAP}another array as y, or none"),
    ("bind, number", TypeError, lambda m: m.tuned.affine.bind(m.x, "1", relu=False),
     f"{A}alpha: expected float32 {FLOAT32}, found '1'"),
    ("bind, keyword", ValueError, lambda m: m.tuned.affine.bind(m.x, 1.0, relu="no"),
     f"{A}relu: expected one of False, True, found 'no'"),
    ("bind, stream", TypeError, lambda m: m.tuned.affine.bind(m.x, 1.0, relu=False, stream="7"),
     f"{A}stream: {STREAM} str"),
    # Overrides.
    ("using, kernel", ValueError, lambda m: m.tuned.using(afine={"block": 64}),
     "using: pkg.tuned has no kernel 'afine'; did you mean 'affine'?"),
    ("using, configuration", ValueError, lambda m: m.tuned.using(affine={"block": 64, "vec": 8}),
     f"using: pkg.tuned.affine does not ship block=64, vec=8; it ships {SHIPS} affine:block=64,vec=8`"),
    ("using, parameter", ValueError, lambda m: m.tuned.using(affine={"blocks": 64}),
     f"using: pkg.tuned.affine: there is no parameter 'blocks', but block, vec; it ships {SHIPPED}"),
    ("using, no configuration", ValueError, lambda m: m.tuned.using(affine=64),
     "using: affine: expected a configuration as in {'block': 512}, found 64"),
    ("using, device", ValueError, lambda m: m.tuned.using(device="NVIDIA H1000"),
     "using: the table has no device 'NVIDIA H1000'; did you mean 'NVIDIA H100 80GB HBM3'?"),
    ("using, defaults", ValueError, lambda m: m.tuned.using(defaults=["acumulate"]),
     "using: pkg.tuned has no kernel 'acumulate'; did you mean 'accumulate'?"),
    # explain.
    ("explain, kernel", ValueError, lambda m: m.tuned.explain("afine", rows=1),
     "pkg.tuned has no kernel 'afine'; did you mean 'affine'?"),
    ("explain, dim", TypeError, lambda m: m.tuned.explain("affine", row=1),
     "pkg.tuned.affine has no dim or specialisation 'row'; did you mean 'rows'?"),
    ("explain, too little", TypeError, lambda m: m.tuned.explain("affine", rows=1),
     f"{A}explain needs cols=..."),
    ("explain, size", TypeError, lambda m: m.tuned.explain("affine", **SMALL | {"cols": -1}),
     f"{A}cols: expected a size, found -1"),
    ("explain, over int32", ValueError, lambda m: m.tuned.explain("affine", **SMALL | {"rows": 2**31}),
     f"{A}rows: expected at most 2147483647 (int32), found 2147483648"),
    ("explain, device", ValueError, lambda m: m.tuned.explain("affine", device="H100", **SMALL),
     f"{A}{TABLE}"),
]
CUPY = [
    ("alignment to an element", ValueError, lambda m: m.affine(m.array((16, 1024), "float32", offset=2)),
     (f"{A}x: expected an address that is a multiple of 4 bytes (float32), found one 2 bytes beyond; "
     "copy it with x.copy()")),
    ("strided", ValueError, lambda m: m.affine(m.array((16, 1024), "float32", contiguous=False)),
     f"{A}x: {STRIDES} (0, 0) in bytes for shape (16, 1024); copy it with cupy.ascontiguousarray(x)"),
    ("strided output", ValueError, lambda m: m.affine(y=m.array((16, 1024), "float32", contiguous=False)),
     f"{A}y: {STRIDES} (0, 0) in bytes for shape (16, 1024); pass another array as y, or none"),
    ("byte order", TypeError, lambda m: m.affine(m.array((16, 1024), ">f4")),
     f"{A}x: expected dtype float16 or float32, found >f4"),
    ("byte order of the output", TypeError, lambda m: m.affine(y=m.array((16, 1024), ">f4")),
     f"{A}y: expected dtype float32 (T), found >f4"),
]
TORCH = [
    ("alignment to an element", ValueError, lambda m: m.affine(m.array((16, 1024), "float32", offset=2)),
     (f"{A}x: expected an address that is a multiple of 4 bytes (float32), found one 2 bytes beyond; "
     "copy it with x.clone()")),
    ("strided", ValueError, lambda m: m.affine(m.array((16, 1024), "float32", strides=(1, 16))),
     f"{A}x: {STRIDES} (4, 64) in bytes for shape (16, 1024); copy it with x.contiguous()"),
    ("strided output", ValueError, lambda m: m.affine(y=m.array((16, 1024), "float32", strides=(2048, 2))),
     f"{A}y: {STRIDES} (8192, 8) in bytes for shape (16, 1024); pass another array as y, or none"),
    ("on the CPU", TypeError, lambda m: m.affine(m.array((16, 1024), "float32", device="cpu")),
     f"{A}x: expected an array on the GPU, found a torch.Tensor on cpu; move it with x.cuda()"),
    ("output on the CPU", TypeError, lambda m: m.affine(y=m.array((16, 1024), "float32", device="cpu")),
     f"{A}y: expected an array on the GPU, found a torch.Tensor on cpu; move it with y.cuda()"),
    ("gradient", ValueError, lambda m: m.affine(m.array((16, 1024), "float32", requires_grad=True)),
     f"{A}x: {RECORDED} x.detach(), or call under torch.no_grad()"),
    ("gradient of an output", ValueError, lambda m: m.affine(y=m.array((16, 1024), "float32", requires_grad=True)),
     f"{A}y: {RECORDED} y.detach(), or call under torch.no_grad()"),
]
TWO_GPUS = [
    ("prepare, text", ValueError, lambda m: m.tuned.affine.prepare("0"),
     f"{A}prepare: expected a device from 0 to 1, found '0'"),
    ("prepare, negative", ValueError, lambda m: m.tuned.affine.prepare(-1),
     f"{A}prepare: expected a device from 0 to 1, found -1"),
    ("prepare, no such device", ValueError, lambda m: m.tuned.prepare(7),
     f"{B}prepare: expected a device from 0 to 1, found 7"),
    ("devices", ValueError, lambda m: m.affine(y=m.on(1)),
     f"{A}y: expected device 0 as x has, found device 1"),
    ("devices of inputs", ValueError, lambda m: m.accumulate(m.array((2,), "float32", device=1)),
     f"{B}last: expected device 1 as total has, found device 0"),
    ("stream of the first device", TypeError, lambda m: m.affine(m.on(1), y=None, stream=m.stream(5, 0)),
     f"{A}stream: expected device 1 as the arrays have, found device 0"),
]
