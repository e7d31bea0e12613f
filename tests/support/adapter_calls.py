"""Calls of the kernels in tests/data/arrays through every adapter, as data: right ones, and wrong ones.

A call is the text that a user would write. Its buffers are given by their shapes, as in "m 16x100, n float64 64", and
the text takes views of them as NumPy has them; tests make the same views of each library's arrays. A right call
returns what the kernel's reference says, and writes nothing else. A wrong one raises an error with this very message,
launches nothing and writes nothing. In a message {copy:x} stands for what makes x contiguous in its library, and
{anew:x} for what copies an x that is contiguous.

`python tests/support/adapter_calls.py` prints the table.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AdapterCall:
    """A call: its name, its buffers, its text, and, for a wrong one, the kind of the error and the whole message."""

    name: str
    buffers: str
    text: str
    kind: type[Exception] | None = None
    message: str = ""

    @property
    def kernel(self) -> str:
        """The name of the kernel that is called."""
        return self.text.partition("(")[0]


RIGHT = [
    AdapterCall(*row)
    for row in (
        # Rows that lie apart: y = a * x.
        ("contiguous", "m 16x64", "apart(m, 2.0)"),
        ("an integer for a float", "m 16x64", "apart(m, 3)"),
        ("float64", "m float64 16x100", "apart(m[:, :64], 2.0)"),
        ("the first columns", "m 16x100", "apart(m[:, :64], 2.0)"),
        ("an odd number of columns", "m 16x100", "apart(m[:, :63], 2.0)"),
        ("an odd pitch", "m 16x101", "apart(m[:, :64], 2.0)"),
        ("columns in the middle", "m 16x100", "apart(m[:, 4:68], 2.0)"),
        ("columns from an odd one on", "m 16x100", "apart(m[:, 1:65], 2.0)"),
        ("the last columns", "m 16x100", "apart(m[:, -64:], 2.0)"),
        ("every other row", "m 32x64", "apart(m[::2], 2.0)"),
        ("some columns of every third row", "m 32x100", "apart(m[1::3, 8:72], 2.0)"),
        ("far apart", "m 3x10000", "apart(m[:, :8], 2.0)"),
        ("one column of many", "m 16x100", "apart(m[:, 5:6], 2.0)"),
        ("one row", "m 16x100", "apart(m[7:8, :64], 2.0)"),
        ("one row that is one dim", "m 16x100", "apart(m[7, :64], 2.0)"),
        ("one row, turned around", "m 16x100", "apart(m[7:8, :64][::-1], 2.0)"),
        ("a column as a row", "m 64x1", "apart(m.T, 2.0)"),
        ("transposed twice", "m 16x64", "apart(m.T.T, 2.0)"),
        ("no rows", "m 16x100", "apart(m[:0, :64], 2.0)"),
        ("no columns", "m 16x100", "apart(m[:, :0], 2.0)"),
        ("rows apart in planes", "m 4x6x128", "apart(m[:, :, :64], 2.0)"),
        ("a row of each plane", "m 4x6x128", "apart(m[:, 2, :64], 2.0)"),
        ("the rows of one plane", "m 4x6x128", "apart(m[2, :, 32:96], 2.0)"),
        ("dims of one", "m 16x100", "apart(m[None, :, None, :64], 2.0)"),
        ("four dims", "m 2x3x4x80", "apart(m[..., :64], 2.0)"),
        ("planes without rows", "m 4x6x128", "apart(m[:, :0, :64], 2.0)"),
        ("rows to write apart", "m 16x64, n 16x100", "apart(m, 2.0, y=n[:, :64])"),
        ("both apart, otherwise", "m 16x100, n 32x80", "apart(m[:, 8:72], 2.0, y=n[::2, :64])"),
        ("the halves of the same rows", "m 16x128", "apart(m[:, :64], 2.0, y=m[:, 64:])"),
        ("the halves the other way round", "m 16x128", "apart(m[:, 64:], 2.0, y=m[:, :64])"),
        ("even rows and odd ones", "m 32x64", "apart(m[::2], 2.0, y=m[1::2])"),
        ("odd rows and even ones", "m 32x64", "apart(m[1::2], 2.0, y=m[::2])"),
        ("the rows above and below", "m 32x64", "apart(m[:16], 2.0, y=m[16:])"),
        ("one row between the rows", "m 16x100", "apart(m[3:4, :32], 2.0, y=m[3:4, 40:72])"),
        ("rows of two pitches that never meet", "m 2000",
         "apart(laid(m, (8, 16), (40, 1)), 2.0, y=laid(m[20:], (8, 16), (80, 1)))"),
        ("a row of each plane and the next", "m 4x6x64", "apart(m[:, 2], 2.0, y=m[:, 3])"),
        # Planes of rows: y += x, and the sums of x.
        ("planes, contiguous", "m 2x3x32, n 2x3x32", "planes(m, n)"),
        ("planes with rows apart", "m 2x3x40, n 2x3x32", "planes(m[:, :, :32], n)"),
        ("planes apart", "m 2x5x32, n 2x3x32", "planes(m[:, 1:4], n)"),
        ("planes and rows apart", "m 4x5x40, n 2x3x32", "planes(m[1::2, :3, 4:36], n)"),
        ("planes apart to read", "m 2x3x32, n 2x5x32", "planes(m, n[:, 2:])"),
        ("the sums given", "m 2x3x40, n 2x3x32, s 2x3", "planes(m[:, :, :32], n, sums=s)"),
        ("planes of one array", "m 2x6x32", "planes(m[:, :3], m[:, 3:])"),
        ("one plane", "m 4x3x32, n 1x3x32", "planes(m[2:3], n)"),
        ("no planes", "m 2x3x40, n 0x3x32", "planes(m[:0, :, :32], n)"),
        # In place where the spec allows it: out = x + a * z.
        ("an output of its own", "m 1000, n 1000", "add_scaled(m, n, 2.0)"),
        ("an output that is given", "m 1000, n 1000, o 1000", "add_scaled(m, n, 2.0, out=o)"),
        ("in place of the first input", "m 1000, n 1000", "add_scaled(m, n, 2.0, out=m)"),
        ("in place of the second input", "m 1000, n 1000", "add_scaled(m, n, 2.0, out=n)"),
        ("one array as both inputs", "m 1000", "add_scaled(m, m, 2.0)"),
        ("one array as everything", "m 1000", "add_scaled(m, m, 2.0, out=m)"),
        ("inputs that overlap", "m 1000", "add_scaled(m[:500], m[100:600], 2.0)"),
        ("an output behind its input", "m 1000, n 500", "add_scaled(m[:500], n, 2.0, out=m[500:])"),
        ("a row in place", "m 8x500, n 500", "add_scaled(m[3], n, 2.0, out=m[3])"),
        ("nothing within what is read", "m 1000, n 1000", "add_scaled(m[:0], n[:0], 2.0, out=m[5:5])"),
        ("nothing to read within what is changed", "m 2x3x40", "planes(m[:0, :, :32], m[:0, :, :32])"),
        ("nothing in place", "m 1000", "add_scaled(m[:0], m[:0], 2.0, out=m[:0])"),
        # Addresses that are multiples: y = 2 * x.
        ("an address as asked", "m 1000", "double_pairs(m)"),
        ("an address two elements on", "m 1000", "double_pairs(m[2:])"),
        ("both two elements on", "m 1000, n 1000", "double_pairs(m[2:500], y=n[4:502])"),
        ("any address of nothing", "m 1000", "double_pairs(m[2:2])"),
        # Optional arrays: y = x + bias.
        ("without what is optional", "m 16x256", "shift(m)"),
        ("with what is optional", "m 16x256, b 256", "shift(m, bias=b)"),
        ("None for what is optional", "m 16x256", "shift(m, bias=None)"),
        ("a part as what is optional", "m 16x256, b 1000", "shift(m, bias=b[100:356])"),
        ("a row of the input as what is optional", "m 16x256", "shift(m[1:], bias=m[0])"),
        ("optional, all given", "m 16x256, b 256, n 16x256", "shift(m, bias=b, y=n)"),
        ("optional, required at one column", "m 16x1, b 1", "shift(m, bias=b)"),
        ("optional, no rows", "m 16x256, b 256", "shift(m[:0], bias=b)"),
        # Optional arrays whose rows lie apart: y = (x + residual) * scale.
        ("neither", "m 16x100", "add_rows(m[:, :64])"),
        ("the residual", "m 16x64, r 16x64", "add_rows(m, residual=r)"),
        ("the residual apart", "m 16x64, r 16x99", "add_rows(m, residual=r[:, :64])"),
        ("the residual otherwise apart", "m 16x80, r 32x64", "add_rows(m[:, :64], residual=r[::2])"),
        ("the scale", "m 16x80, s 64", "add_rows(m[:, :64], scale=s)"),
        ("both", "m 16x80, r 16x99, s 64", "add_rows(m[:, :64], residual=r[:, 3:67], scale=s)"),
        ("the input as its residual", "m 16x80", "add_rows(m[:, :64], residual=m[:, :64])"),
        ("residual, input and output in the same rows", "m 16x192",
         "add_rows(m[:, :64], residual=m[:, 64:128], y=m[:, 128:])"),
        ("None for both", "m 16x64, n 16x70", "add_rows(m, residual=None, scale=None, y=n[:, :64])"),
        # Leading dims of any number: y = x + w, and the sums of x.
        ("leading dims, one", "m 16x32, w 32", "row_sums(m, w)"),
        ("leading dims, none", "m 32, w 32", "row_sums(m, w)"),
        ("leading dims, four", "m 2x2x3x4x32, w 32", "row_sums(m, w)"),
        ("leading dims, one of them zero", "m 2x3x32, w 32", "row_sums(m[:, :0], w)"),
        ("leading dims, in place", "m 4x4x32, w 32", "row_sums(m, w, y=m)"),
        ("leading dims, outputs given", "m 4x4x32, w 32, n 4x4x32, s 4x4", "row_sums(m, w, y=n, sums=s)"),
        ("leading dims, one output given", "m 4x4x32, w 32, s 4x4", "row_sums(m, w, sums=s)"),
        # A type that the call names: y = 2 * x.
        ("float64 made of float32", "m 1000", "double(m, to='float64')"),
        ("float32 made of float32", "m 1000", "double(m, to='float32')"),
        ("the type of the output that is given", "m 1000, n float64 1000", "double(m, to='float64', y=n)"),
    )
]  # fmt: skip

WRONG = [
    AdapterCall(*row)
    for row in (
        # Rows that lie as no kernel takes them.
        ("transposed", "m 64x16", "apart(m.T, 2.0)", ValueError,
         ("x: expected an array that is C-contiguous but for x_stride, found strides (4, 64) in bytes for shape"
         " (16, 64); copy it with {copy:x}")),
        ("every other column", "m 16x128", "apart(m[:, ::2], 2.0)", ValueError,
         ("x: expected an array that is C-contiguous but for x_stride, found strides (512, 8) in bytes for "
         "shape (16, 64); copy it with {copy:x}")),
        ("columns turned around", "m 16x64", "apart(m[:, ::-1], 2.0)", ValueError,
         ("x: expected an array that is C-contiguous but for x_stride, found strides (256, -4) in bytes for "
         "shape (16, 64); copy it with {copy:x}")),
        ("rows turned around", "m 16x64", "apart(m[::-1], 2.0)", ValueError,
         ("x: expected x_stride of at least 64 elements, so that none overlap, found strides (-256, 4) in bytes"
         " for shape (16, 64); copy it with {copy:x}")),
        ("one row for all", "m 64", "apart(laid(m, (16, 64), (0, 1)), 2.0)", ValueError,
         ("x: expected x_stride of at least 64 elements, so that none overlap, found strides (0, 4) in bytes "
         "for shape (16, 64); copy it with {copy:x}")),
        ("one column for all", "m 16", "apart(laid(m, (16, 64), (1, 0)), 2.0)", ValueError,
         ("x: expected an array that is C-contiguous but for x_stride, found strides (4, 0) in bytes for shape "
         "(16, 64); copy it with {copy:x}")),
        ("rows that overlap", "m 2000", "apart(laid(m, (16, 64), (63, 1)), 2.0)", ValueError,
         ("x: expected x_stride of at least 64 elements, so that none overlap, found strides (252, 4) in bytes "
         "for shape (16, 64); copy it with {copy:x}")),
        ("a stride of half an element", "m 2000", "apart(halves(m, (16, 64)), 2.0)", ValueError,
         ("x: expected x_stride to be a whole number of elements, 4 bytes each, found strides (258, 4) in bytes"
         " for shape (16, 64); copy it with {copy:x}")),
        ("one row of every other element", "m 128", "apart(m[::2], 2.0)", ValueError,
         ("x: expected an array that is C-contiguous but for x_stride, found strides (0, 8) in bytes for shape "
         "(1, 64); copy it with {copy:x}")),
        ("planes with rows left out", "m 4x6x64", "apart(m[:, 1:3], 2.0)", ValueError,
         ("x: expected leading dimensions that are one, with rows at one distance, found strides (1536, 256, 4)"
         " in bytes for shape (4, 2, 64); copy it with {copy:x}")),
        ("planes turned around", "m 4x6x64", "apart(m[::-1], 2.0)", ValueError,
         ("x: expected leading dimensions that are one, with rows at one distance, found strides (-1536, 256, "
         "4) in bytes for shape (4, 6, 64); copy it with {copy:x}")),
        ("planes exchanged", "m 4x6x64", "apart(m.transpose(1, 0, 2), 2.0)", ValueError,
         ("x: expected leading dimensions that are one, with rows at one distance, found strides (256, 1536, 4)"
         " in bytes for shape (6, 4, 64); copy it with {copy:x}")),
        ("output transposed", "m 16x64, n 64x16", "apart(m, 2.0, y=n.T)", ValueError,
         ("y: expected an array that is C-contiguous but for y_stride, found strides (4, 64) in bytes for shape"
         " (16, 64); pass another array as y, or none")),
        ("output turned around", "m 16x64, n 16x64", "apart(m, 2.0, y=n[::-1])", ValueError,
         ("y: expected y_stride of at least 64 elements, so that none overlap, found strides (-256, 4) in bytes"
         " for shape (16, 64); pass another array as y, or none")),
        ("one row to write all to", "m 16x64, n 64", "apart(m, 2.0, y=laid(n, (16, 64), (0, 1)))", ValueError,
         ("y: expected y_stride of at least 64 elements, so that none overlap, found strides (0, 4) in bytes "
         "for shape (16, 64); pass another array as y, or none")),
        ("rows to write that overlap", "m 16x64, n 2000", "apart(m, 2.0, y=laid(n, (16, 64), (32, 1)))", ValueError,
         ("y: expected y_stride of at least 64 elements, so that none overlap, found strides (128, 4) in bytes "
         "for shape (16, 64); pass another array as y, or none")),
        ("rows of planes apart, unnamed", "m 2x3x32, n 2x3x40", "planes(m, n[:, :, :32])", ValueError,
         ("x: expected an array that is C-contiguous but for x_plane, found strides (480, 160, 4) in bytes for "
         "shape (2, 3, 32); copy it with {copy:x}")),
        ("rows apart where the spec names none", "m 16x100, w 64", "row_sums(m[:, :64], w)", ValueError,
         ("x: expected a C-contiguous array, found strides (400, 4) in bytes for shape (16, 64); copy it with "
         "{copy:x}")),
        ("elements apart where the spec names none", "m 1000", "double_pairs(m[::2])", ValueError,
         ("x: expected a C-contiguous array, found strides (8,) in bytes for shape (500,); copy it with "
         "{copy:x}")),
        ("an optional column", "m 16x256, b 256x4", "shift(m, bias=b[:, 0])", ValueError,
         ("bias: expected a C-contiguous array, found strides (16,) in bytes for shape (256,); copy it with "
         "{copy:bias}")),
        ("an optional array transposed", "m 16x64, r 64x16", "add_rows(m, residual=r.T)", ValueError,
         ("residual: expected an array that is C-contiguous but for r_stride, found strides (4, 64) in bytes "
         "for shape (16, 64); copy it with {copy:residual}")),
        ("one optional row for all", "m 16x64, r 64", "add_rows(m, residual=laid(r, (16, 64), (0, 1)))", ValueError,
         ("residual: expected r_stride of at least 64 elements, so that none overlap, found strides (0, 4) in "
         "bytes for shape (16, 64); copy it with {copy:residual}")),
        ("an optional array turned around", "m 16x64, r 16x64", "add_rows(m, residual=r[::-1])", ValueError,
         ("residual: expected r_stride of at least 64 elements, so that none overlap, found strides (-256, 4) "
         "in bytes for shape (16, 64); copy it with {copy:residual}")),
        ("planes that overlap", "m 1000, n 2x3x32", "planes(laid(m, (2, 3, 32), (64, 32, 1)), n)", ValueError,
         ("y: expected y_plane of at least 96 elements, so that none overlap, found strides (256, 128, 4) in "
         "bytes for shape (2, 3, 32); copy it with {copy:y}")),
        ("planes within rows", "m 3x2x32, n 2x3x32", "planes(m.transpose(1, 0, 2), n)", ValueError,
         ("y: expected y_plane of at least 160 elements, so that none overlap, found strides (128, 256, 4) in "
         "bytes for shape (2, 3, 32); copy it with {copy:y}")),
        # What the spec requires of strides and addresses.
        ("a stride that the spec refuses", "m 2x3x33, n 2x3x32", "planes(m[:, :, :32], n)", ValueError,
         "requires y_row % 2 == 0, found y_row=33 of y"),
        ("an address between multiples", "m 1000", "double_pairs(m[1:501])", ValueError,
         "x: requires aligned(x, 8), found an address 4 bytes beyond a multiple; copy it with {anew:x}"),
        ("an address to write between multiples", "m 500, n 1000", "double_pairs(m, y=n[3:503])", ValueError,
         ("y: requires aligned(y, 2 * sizeof(float32)), found an address 4 bytes beyond a multiple; pass "
         "another array as y, or none")),
        ("an address within an element", "m 1001", "add_scaled(at(m, 2), at(m, 2), 2.0)", ValueError,
         ("x: expected an address that is a multiple of 4 bytes (float32), found one 2 bytes beyond; copy it "
         "with {anew:x}")),
        ("an address of rows within an element", "m 1025", "apart(at(m, 1)[:1024].reshape(16, 64), 2.0)", ValueError,
         ("x: expected an address that is a multiple of 4 bytes (float32), found one 1 byte beyond; copy it "
         "with {anew:x}")),
        ("an address to write within an element", "m 16x64, n 1025",
         "apart(m, 2.0, y=at(n, 2).reshape(16, 64))", ValueError,
         ("y: expected an address that is a multiple of 4 bytes (float32), found one 2 bytes beyond; pass "
         "another array as y, or none")),
        ("an optional address within an element", "m 16x256, b 257", "shift(m, bias=at(b, 2))", ValueError,
         ("bias: expected an address that is a multiple of 4 bytes (float32), found one 2 bytes beyond; copy it"
         " with {anew:bias}")),
        # Memory that is shared.
        ("in place without consent", "m 16x64", "apart(m, 2.0, y=m)", ValueError,
         ("y: shares memory with x, and an array that is written must not overlap another argument; pass "
         "another array as y, or none")),
        ("rows of two pitches that meet", "m 2000",
         "apart(laid(m, (8, 16), (40, 1)), 2.0, y=laid(m[10:], (8, 16), (80, 1)))", ValueError,
         ("y: shares memory with x, and an array that is written must not overlap another argument; pass "
         "another array as y, or none")),
        ("in place of rows apart", "m 16x100", "apart(m[:, :64], 2.0, y=m[:, :64])", ValueError,
         ("y: shares memory with x, and an array that is written must not overlap another argument; pass "
         "another array as y, or none")),
        ("halves that share a column", "m 16x128", "apart(m[:, :64], 2.0, y=m[:, 63:127])", ValueError,
         ("y: shares memory with x, and an array that is written must not overlap another argument; pass "
         "another array as y, or none")),
        ("rows of two pitches in one array", "m 4096",
         "apart(laid(m, (16, 64), (128, 1)), 2.0, y=laid(m[64:], (16, 64), (192, 1)))", ValueError,
         ("y: shares memory with x, and an array that is written must not overlap another argument; pass "
         "another array as y, or none")),
        ("a part of an input to write to", "m 1000, n 500", "add_scaled(m[:500], n, 2.0, out=m[1:501])", ValueError,
         "out: shares memory with x, and it has to be all of x, or to lie apart from it"),
        ("an input's end to write to", "m 1000, n 500", "add_scaled(n, m[499:999], 2.0, out=m[:500])", ValueError,
         "out: shares memory with z, and it has to be all of z, or to lie apart from it"),
        ("changed in place and read", "m 2x3x32", "planes(m, m)", ValueError,
         ("y: shares memory with x, and an array that is written must not overlap another argument; pass a copy"
         " of x")),
        ("the optional array to write to", "m 16x256, b 256", "shift(m, bias=m[2], y=m)", ValueError,
         ("y: shares memory with bias, and an array that is written must not overlap another argument; pass "
         "another array as y, or none")),
        ("the residual to write to", "m 16x64, r 16x80", "add_rows(m, residual=r[:, :64], y=r[:, 16:])", ValueError,
         ("y: shares memory with residual, and an array that is written must not overlap another argument; pass"
         " another array as y, or none")),
        ("two outputs in one", "m 4x4x32, w 32, n 4x4x32",
         "row_sums(m, w, y=n, sums=laid(n, (4, 4), (4, 1)))", ValueError,
         ("y: shares memory with sums, and an array that is written must not overlap another argument; pass "
         "another array as y, or none")),
        # Types.
        ("integers", "m int32 16x64", "apart(m, 2.0)", TypeError,
         "x: expected dtype float32 or float64, found int32"),
        ("float16", "m float16 16x64", "apart(m, 2.0)", TypeError,
         "x: expected dtype float32 or float64, found float16"),
        ("an output of another type", "m 16x64, n float64 16x64", "apart(m, 2.0, y=n)", TypeError,
         "y: expected dtype float32 (T), found float64"),
        ("an optional array of another type", "m 16x256, b float64 256", "shift(m, bias=b)", TypeError,
         "bias: expected dtype float32 (T), found float64"),
        ("an optional array of a type that never ships", "m 16x64, r float64 16x64",
         "add_rows(m, residual=r)", TypeError,
         "residual: expected dtype float32, found float64"),
        ("inputs of two types", "m 100, n float64 100", "add_scaled(m, n, 2.0)", TypeError,
         "z: expected dtype float32 (T), found float64"),
        ("an output of a type that the call does not name", "m 100, n float64 100",
         "double(m, to='float32', y=n)", TypeError, "y: expected dtype float32 (U), found float64"),
        ("a type that does not ship", "m 100", "double(m, to='float16')", ValueError,
         "to: expected one of 'float32', 'float64', found 'float16'"),
        # Shapes.
        ("another shape to write to", "m 16x64, n 16x80", "apart(m, 2.0, y=n)", ValueError,
         "y: expected shape (rows..., cols) = (16, 64), found (16, 80)"),
        ("more rows to write to", "m 16x64, n 32x64", "apart(m, 2.0, y=n)", ValueError,
         "y: expected the leading dimensions (16,) of x, found (32,) in shape (32, 64)"),
        ("no dims", "m 1", "apart(m[0, ...], 2.0)", ValueError,
         "x: expected at least 1 dimension (rows..., cols), found 0: ()"),
        ("no dims to write to", "m 16x64, n 1", "apart(m, 2.0, y=n[0, ...])", ValueError,
         "y: expected at least 1 dimension (rows..., cols), found 0: ()"),
        ("an optional array too short", "m 16x256, b 255", "shift(m, bias=b)", ValueError,
         "bias: expected shape (cols,) = (256,), found (255,)"),
        ("an optional array of two dims", "m 16x256, b 1x256", "shift(m, bias=b)", ValueError,
         "bias: expected 1 dimension (cols,), found 2: (1, 256)"),
        ("an optional array without dims", "m 16x256, b 1", "shift(m, bias=b[0, ...])", ValueError,
         "bias: expected 1 dimension (cols,), found 0: ()"),
        ("an optional array that is empty", "m 16x256, b 0", "shift(m, bias=b)", ValueError,
         "bias: expected shape (cols,) = (256,), found (0,)"),
        ("a residual of other rows", "m 16x64, r 8x64", "add_rows(m, residual=r)", ValueError,
         "residual: expected shape (rows, cols) = (16, 64), found (8, 64)"),
        ("inputs of two lengths", "m 100, n 99", "add_scaled(m, n, 2.0)", ValueError,
         "z: expected shape (n,) = (100,), found (99,)"),
        ("a matrix for a vector", "m 10x10", "add_scaled(m, m, 2.0)", ValueError,
         "x: expected 1 dimension (n,), found 2: (10, 10)"),
        ("an odd length that the spec refuses", "m 999", "double_pairs(m)", ValueError,
         "requires n % 2 == 0, found n=999 of x"),
        ("an odd extent of a dim twice", "m 2x3x31, n 2x3x31", "planes(m, n)", ValueError,
         "y: expected 2 * d elements along axis 2, a multiple of 2, found 31: (2, 3, 31)"),
        ("other leading dims", "m 4x4x32, w 32, n 2x8x32", "row_sums(m, w, y=n)", ValueError,
         "y: expected the leading dimensions (4, 4) of x, found (2, 8) in shape (2, 8, 32)"),
        ("leading dims left out", "m 4x4x32, w 32, s 16", "row_sums(m, w, sums=s)", ValueError,
         "sums: expected the leading dimensions (4, 4) of x, found (16,) in shape (16,)"),
        # What is left out.
        ("an optional array that the size requires", "m 16x1", "shift(m)", ValueError,
         "requires has_bias or cols >= 2, found cols=1 of x, has_bias=False"),
        ("None for an input", "", "shift(None)", TypeError,
         ("x: expected an array on the GPU (CuPy, PyTorch, or one with __cuda_array_interface__ or __dlpack__),"
         " found None")),
        ("None for what is changed", "n 2x3x32", "planes(None, n)", TypeError,
         ("y: expected an array on the GPU (CuPy, PyTorch, or one with __cuda_array_interface__ or __dlpack__),"
         " found None")),
        # What is no array of the library on that GPU.
        ("an array of NumPy", "m 16x64", "apart(as_numpy(m), 2.0)", TypeError,
         ("x: expected an array on the GPU (CuPy, PyTorch, or one with __cuda_array_interface__ or __dlpack__),"
         " found numpy.ndarray; move it with cupy.asarray(x) or torch.as_tensor(x, device='cuda')")),
        ("an output of NumPy", "m 16x64, n 16x64", "apart(m, 2.0, y=as_numpy(n))", TypeError,
         ("y: expected an array on the GPU (CuPy, PyTorch, or one with __cuda_array_interface__ or __dlpack__),"
         " found numpy.ndarray; move it with cupy.asarray(y) or torch.as_tensor(y, device='cuda')")),
        ("an optional array of NumPy", "m 16x256, b 256", "shift(m, bias=as_numpy(b))", TypeError,
         ("bias: expected an array on the GPU (CuPy, PyTorch, or one with __cuda_array_interface__ or "
         "__dlpack__), found numpy.ndarray; move it with cupy.asarray(bias) or torch.as_tensor(bias, "
         "device='cuda')")),
        ("a tensor on the CPU", "m 16x64", "apart(as_tensor(m), 2.0)", TypeError,
         "x: expected an array on the GPU, found a torch.Tensor on cpu; move it with x.cuda()"),
        ("an optional tensor on the CPU", "m 16x256, b 256", "shift(m, bias=as_tensor(b))", TypeError,
         "bias: expected an array on the GPU, found a torch.Tensor on cpu; move it with bias.cuda()"),
        ("a number for an optional array", "m 16x256", "shift(m, bias=1.0)", TypeError,
         ("bias: expected an array on the GPU (CuPy, PyTorch, or one with __cuda_array_interface__ or "
         "__dlpack__), found float")),
        ("a list for an input", "m 32", "row_sums([[1.0]], m)", TypeError,
         ("x: expected an array on the GPU (CuPy, PyTorch, or one with __cuda_array_interface__ or __dlpack__),"
         " found list")),
        ("an input on the other GPU", "m 100, n 100", "add_scaled(m, on_other(n), 2.0)", ValueError,
         "z: expected device 0 as x has, found device 1"),
        ("an output on the other GPU", "m 16x64, n 16x64", "apart(m, 2.0, y=on_other(n))", ValueError,
         "y: expected device 0 as x has, found device 1"),
        ("an optional array on the other GPU", "m 16x256, b 256", "shift(m, bias=on_other(b))", ValueError,
         "bias: expected device 0 as x has, found device 1"),
        ("an array for a number", "m 16x64, a 1", "apart(m, a[0, ...])", TypeError,
         "a: expected a number, found an array on the GPU; pass a.item(), which waits for the GPU"),
        ("a text for a number", "m 16x64", "apart(m, '2')", TypeError,
         "a: expected float32 (a number up to 3.4e38), found '2'"),
        # What the interface alone can say.
        ("read-only, to write", "m 16x64, n 16x64", "apart(m, 2.0, y=sealed(n))", ValueError,
         "y: expected an array that may be written, found a read-only one; pass another, such as a copy"),
        ("read-only, to change", "m 2x3x32, n 2x3x32", "planes(sealed(m), n)", ValueError,
         "y: expected an array that may be written, found a read-only one; pass another, such as a copy"),
        ("the other byte order", "m 16x64", "apart(swapped(m), 2.0)", TypeError,
         "x: expected dtype float32 or float64, found >f4"),
        ("a type without a name", "m 16x64", "apart(unnamed(m), 2.0)", TypeError,
         ("x: expected a __cuda_array_interface__ with shape, data and a typestr such as '<f4', found {'shape':"
         " (16, 64), 'typestr': 'f4', 'data': (ADDRESS, False), 'strides': (256, 4), 'version': 3}")),
        ("memory of no GPU", "m 16x256, b 256", "shift(m, bias=nowhere(b))", ValueError,
         "bias: expected memory of a GPU, found the address 0x10 (cuPointerGetAttribute: CUresult 1)"),
        # What PyTorch alone can say.
        ("a gradient", "m 16x64", "apart(recorded(m), 2.0)", ValueError,
         ("x: requires a gradient, and autograd does not record this call; pass x.detach(), or call under "
         "torch.no_grad()")),
        ("a gradient of an optional array", "m 16x256, b 256", "shift(m, bias=recorded(b))", ValueError,
         ("bias: requires a gradient, and autograd does not record this call; pass bias.detach(), or call under"
         " torch.no_grad()")),
    )
]  # fmt: skip


if __name__ == "__main__":
    for calls in (RIGHT, WRONG):
        for call in calls:
            print(f"{call.name}: {call.text}   with {call.buffers}")
            if call.message:
                print(f"    {call.kind.__name__}: {call.message}")
    print(f"{len(RIGHT)} right calls, {len(WRONG)} wrong ones")
