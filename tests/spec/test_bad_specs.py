"""Every kind of slip in a spec, with the whole message that its author reads."""

from __future__ import annotations

import pytest

from pretuned.errors import SpecError
from pretuned.runtime.types import DTYPES
from pretuned.spec.loader import load, load_files, load_folder
from pretuned.spec.templates import render
from specs import PLAIN_TEMPLATE, REFERENCE, SCALE, SCALE_TEMPLATE, SEVERAL, edited, faults, loaded, write

ALLOWED = "allowed are + - * // % **, comparisons, and/or/not, x if c else y, ceil_div(a, b), min, max and sizeof(T)"
LEGAL = "the default must be legal for every problem: choose another, or demand it in `requires`"
KNOWN = ", ".join(sorted(DTYPES))
NO_INPUT = (
    "no array's shape gives '{0}', so it cannot be read off a call; name it in the shape of an `in` argument, alone or "
    "as in `2 * {0}`"
)
NO_FLOATS = "only integers and bools are allowed, and texts and floats alone in a comparison with a name"
ALSO_A_NUMBER = "is also a dim, a stride, a specialisation or a derived name, which are numbers; rename one"
AT_FLOAT16 = "T=float16; say in `requires` which sizes the kernel takes"
NO_TYPE = """no input has dtype 'T', so it cannot be read off a call; give an `in` argument `dtype = "T"`"""
NO_TYPE += """, or let it follow from a keyword with texts, `from = "KEYWORD"`"""

HOSTILE = "P; }; int main() {"
NO_NAME = "cannot be a name: use a letter, then letters, digits and '_', and no Python keyword"
# Places of the sound spec that edits change.
GUARD = "n % vec == 0"
X = 'name = "x", role = "in"'
Y = 'name = "y", role = "out"'
A = 'dtype = "float32", value = 2.0'
GRID = 'grid     = ["ceil_div(n, block * vec)"]'
BLOCK = 'block    = ["block"]'
SIZES = "1024, 65536"
VEC = "\nvec   = [1, 2, 4]"
DEFAULT_VEC = "\nvec   = 1\n"
WHERE = "where ="


def add(table: str, lines: str) -> tuple[str, str]:
    """Put `lines` at the head of `table`."""
    return f"[{table}]\n", f"[{table}]\n{lines}\n"


def where(text: str) -> tuple[str, str]:
    return GUARD, text


STRUCTURE = {
    "unknown table": ([add("verify", "\n[verfy]")], ["verfy: unknown key 'verfy'; did you mean 'verify'?"]),
    "unknown key of an argument": (
        [(A, 'dtype = "float32", valeu = 2.0, value = 2.0')],
        ["arguments[2].valeu: unknown key 'valeu'; did you mean 'value'?"],
    ),
    "unknown key of a fill": (
        [(X, f"{X}, fill = {{ from = 0, to = 1, too = 2 }}")],
        ["arguments[1].fill.too: unknown key 'too'; did you mean 'to'?"],
    ),
    "unknown key of the cost": (
        [("[verify]\n", '[cost]\nterm = ["n"]\n\n[verify]\n')],
        ["cost.term: unknown key 'term'; did you mean 'terms'?"],
    ),
    "unknown key unlike any": (
        [add("verify", "zzz = 1")],
        ["verify.zzz: unknown key 'zzz'; known are atol, compare, gpu-reference, inputs, reference, rtol"],
    ),
    "unknown key of a dim named as a table": (
        [
            add("dims", "verify = { sizes = [4], size = 4 }"),
            (
                '["n"], align = "vec * sizeof(T)" },\n  { name = "a"',
                '["n", "verify"], align = "vec * sizeof(T)" },\n  { name = "a"',
            ),
        ],
        ["dims.verify.size: unknown key 'size'; did you mean 'sizes'?"],
    ),
    "unknown keys hide no other fault": (
        [add("verify", "rtoll = 1"), where("m % vec == 0")],
        [
            "verify.rtoll: unknown key 'rtoll'; did you mean 'rtol'?",
            "constraints.where[1]: unknown name 'm' in 'm % vec == 0'",
        ],
    ),
    "tensor maps of an argument": (
        [(X, f"{X}, tensor-map = 1")],
        [
            (
                "arguments[1].tensor-map: 'tensor-map': list tensor maps beside the launches, and name them in their "
                '`arguments`: `tensor-maps = [{ name = "x_map", array = "x", box = [64, 64] }]`'
            ),
        ],
    ),
    "constant memory": (
        [(X, f'{X}, memory = "constant"')],
        [
            (
                "arguments[1].memory: 'memory': pass a struct with an array instead (`[structs]`), since parameters "
                "lie in constant memory; a symbol would be one for the calls of all streams"
            )
        ],
    ),
    "out of scope": (
        [(A, f"{A}, texture = true")],
        [
            "arguments[2].texture: 'texture' is out of scope: textures are not supported",
        ],
    ),
    "no format": ([("format  = 1\n", "")], ["format: missing; write `format = 1`"]),
    "newer format": (
        [("format  = 1", "format = 2")],
        ["format: is 2, and this pretuned reads format 1; install a newer one"],
    ),
    "format no integer": ([("format  = 1", "format = true")], ["format: is true; write `format = 1`"]),
    "name": ([("format  = 1", 'format = 1\nname = "x"')], ["name: unknown key; a kernel is named by its file"]),
    "key missing": ([('function = "scale"\n', "")], ["launches[0].function: missing; write `function = ...`"]),
    "role": (
        [(X, 'name = "x", role = "input"')],
        ["arguments[1].role: is \"input\"; expected 'in', 'out' or 'inout'"],
    ),
    "no list": (
        [(BLOCK, 'block = "block"')],
        ['launches[0].block: expected a list, found "block"; write `block = ["block"]`'],
    ),
    "no string": ([('dtype = "int32"', "dtype = 32")], ["arguments[3].dtype: expected a string, found 32"]),
    "no table": ([(f"{{ sizes = [{SIZES}] }}", "[1024]")], ["dims.n: expected a table, found [1024]"]),
    "four extents": (
        [(BLOCK, 'block = ["block", 1, 1, 1]')],
        ["launches[0].block: has 4 entries; at most 3 are allowed"],
    ),
    "empty grid": ([(GRID, "grid = []")], ["launches[0].grid: is empty; write at least one entry"]),
    "no launches": (
        [(f'[[launches]]\nfunction = "scale"\n{GRID}\n{BLOCK}\n', "")],
        ["launches: missing; write `launches = [{ function, grid, block }]` or [[launches]] tables"],
    ),
}

VALUES = {
    "negative size": ([(SIZES, "-1024, 65536")], ["dims.n.sizes[0]: is -1024; a size is at least 1"]),
    "negative extent": (
        [(X + ', dtype = "T", shape = ["n"]', X + ', dtype = "T", shape = ["n", -1]')],
        ["arguments[1].shape[1]: is -1; a size is at least 0"],
    ),
    "size 0": ([(SIZES, "0, 65536")], ["dims.n.sizes[0]: is 0; a size is at least 1"]),
    "size true": ([(SIZES, "true, 65536")], ["dims.n.sizes[0]: expected an integer, found true"]),
    "size beyond 64 bits": (
        [(SIZES, f"1024, 1{'0' * 30}")],
        ["dims.n.sizes[1]: is an integer beyond 64 bits; a size fits 64 bits"],
    ),
    "size beyond its argument": (
        [(SIZES, "1024, 4294967296")],
        ["dims.n.sizes[1]: 4294967296 does not fit the type of the argument 'n'; pass it as int64"],
    ),
    "no sizes": ([(SIZES, "")], ["dims.n.sizes: is empty; write at least one entry"]),
    "float parameter": (
        [("[128, 256]", "[128, 25.6]")],
        [
            "default.block: 256 is outside the space; `space.block` has 25.6, 128",
            "space.block: mixes integers and floats; write floats with a point, as in 1.0",
        ],
    ),
    "bools among integers": ([("[1, 2, 4]", "[1, true, 4]")], ["space.vec: mixes bools and integers; use one kind"]),
    "no values": ([("[1, 2, 4]", "[]")], ["space.vec: is empty; write at least one entry"]),
    "space no table": (
        [("[space]\nblock = [128, 256]" + VEC + "\n", ""), ("format  = 1", "format = 1\nspace = 3")],
        [
            "space: expected a table of lists, as in `block = [128, 256]`, or a list of configurations, found 3",
        ],
    ),
    "negative tolerance": ([("2e-3", "-1")], ["verify.rtol.float16: is -1; must be at least 0 and finite"]),
    "infinite tolerance": ([("2e-3", "inf")], ["verify.rtol.float16: is inf; must be at least 0 and finite"]),
    "tolerance no number": (
        [("{ float32 = 1e-5, float16 = 2e-3 }", '"tight"')],
        ['verify.rtol: expected a number, found "tight"'],
    ),
    "tolerance of booleans": (
        [("float16 = 2e-3", "bool = 1")],
        ["verify.rtol.bool: booleans are right or wrong; leave it out"],
    ),
    "tolerance of no dtype": (
        [("float16 = 2e-3", "flot16 = 2e-3")],
        ["verify.rtol.flot16: unknown dtype 'flot16'; did you mean 'float16'?"],
    ),
    "init": ([(Y, f"{Y}, init = 1")], ["arguments[0].init: is 1; expected 0, the only value that is supported"]),
    "init of an input": (
        [(X, f"{X}, init = 0")],
        ['arguments[1].init: only an output (`role = "out"`) or scratch is initialised'],
    ),
    "bool block": (
        [(BLOCK, "block = [true]")],
        ["launches[0].block[0]: expected an integer or an expression in quotes, found true"],
    ),
    "block 0": ([(BLOCK, 'block = ["block", 0]')], ["launches[0].block[1]: is 0; must be at least 1"]),
}

EXPRESSIONS = {
    "unknown name": (
        [where("n % vecs == 0")],
        ["constraints.where[1]: unknown name 'vecs' in 'n % vecs == 0'; did you mean 'vec'?"],
    ),
    "unknown name in a grid": (
        [(GRID, 'grid = ["ceil_div(n, blok)"]')],
        ["launches[0].grid[0]: unknown name 'blok' in 'ceil_div(n, blok)'; did you mean 'block'?"],
    ),
    "call": (
        [where("abs(n) == n")],
        ["constraints.where[1]: 'abs(n) == n' calls 'abs'; only ceil_div, max, min, sizeof can be called"],
    ),
    "call by a near name": (
        [where("ciel_div(n, 2) > 1")],
        ["constraints.where[1]: 'ciel_div(n, 2) > 1' calls 'ciel_div'; did you mean 'ceil_div'?"],
    ),
    "attribute": (
        [where("n.real == n")],
        [
            (
                "constraints.where[1]: 'n.real == n' reads the attribute 'n.real'; only device.compute_capability, "
                "device.l2_bytes, device.resident_blocks, device.shared_bytes, device.sm_count can be read"
            )
        ],
    ),
    "attribute of the device": (
        [where("device.sm_cout > vec")],
        [
            (
                "constraints.where[1]: 'device.sm_cout > vec' reads the attribute 'device.sm_cout'; "
                "did you mean 'device.sm_count'?"
            )
        ],
    ),
    "syntax": ([where("n % vec = 0")], [f"constraints.where[1]: 'n % vec = 0' is not an expression; {ALLOWED}"]),
    "operator": ([where("n & 1 == 0")], [f"constraints.where[1]: 'n & 1 == 0' uses &; {ALLOWED}"]),
    "true division": (
        [where("n / vec == 0")],
        ["constraints.where[1]: 'n / vec == 0' divides with '/'; write '//' or ceil_div(a, b)"],
    ),
    "float": (
        [where("n * 1.5 > 0")],
        [
            f"constraints.where[1]: 'n * 1.5 > 0' has the literal 1.5; {NO_FLOATS}",
        ],
    ),
    "tower of powers": (
        [where("n < 9**9**9")],
        [
            "constraints.where[1]: 'n < 9**9**9' has no value: a result is beyond 2 ** 62",
        ],
    ),
    "division by zero": ([where("n < 1 // 0")], ["constraints.where[1]: 'n < 1 // 0' always divides by zero"]),
    "10,000 parentheses": (
        [where("(" * 10_000 + "n" + ")" * 10_000)],
        ["constraints.where[1]: is 20001 characters long; at most 500 are allowed"],
    ),
    "deep": (
        [where("-" * 21 + "n < 1")],
        [
            f"constraints.where[1]: '{'-' * 21}n < 1' is nested more than 20 deep; split it into several constraints",
        ],
    ),
    "type as a value": (
        [where("T == 4")],
        ["constraints.where[1]: 'T' is a type; only sizeof(T) has a value"],
    ),
    "size of a value": (
        [where("sizeof(vec) == 4")],
        ["constraints.where[1]: sizeof(vec) in 'sizeof(vec) == 4': 'vec' is not a type"],
    ),
    "device where a call has none": (
        [
            (
                X + ', dtype = "T", shape = ["n"], align = "vec * sizeof(T)"',
                X + ', dtype = "T", shape = ["n"], align = "device.sm_count"',
            )
        ],
        [
            (
                "arguments[1].align: 'device.sm_count' has no value here; only grid, block, shared, scratch shapes and "
                "`where` may read it"
            )
        ],
    ),
    "requires a parameter": (
        [(WHERE, 'requires = ["block < 5"]\nwhere =')],
        ["constraints.requires[0]: 'block' is a parameter; what limits parameters belongs in `where`"],
    ),
}

NAMES = {
    "dim and specialisation": (
        [add("specialisations", "n = { values = [1, 2] }")],
        ["specialisations.n: 'n' is already the name of one of the dims; rename one"],
    ),
    "dim and parameter": (
        [add("space", "n = [1]"), add("default", "n = 1")],
        [
            "arguments[3].name: 'n' is a parameter of the space; rename one",
            "space.n: 'n' is already the name of one of the dims; rename one",
        ],
    ),
    "keyword": (
        [add("dims", "lambda = { sizes = [4] }")],
        [
            "dims.lambda: 'lambda' cannot be a name: use a letter, then letters, digits and '_', and no Python keyword",
            f"dims.lambda: {NO_INPUT.format('lambda')}",
        ],
    ),
    "taken": (
        [add("space", "min = [1]"), add("default", "min = 1"), (BLOCK, 'block = ["block"]\nshared = "min"')],
        ["space.min: 'min' has a meaning of its own in expressions, templates or calls; use another name"],
    ),
    "two arguments": (
        [('name = "a"', 'name = "x"')],
        ["arguments[2].name: a second argument named 'x'; names must differ"],
    ),
    "argument and parameter": (
        [('name = "a"', 'name = "vec"')],
        ["arguments[2].name: 'vec' is a parameter of the space; rename one"],
    ),
}

ARGUMENTS = {
    "unknown dtype": (
        [(A, 'dtype = "flaot32", value = 2.0')],
        ["arguments[2].dtype: unknown dtype 'flaot32'; did you mean 'float32'?"],
    ),
    "unknown dtype of an array": (
        [(X + ', dtype = "T"', X + ', dtype = "U"')],
        [
            f"arguments[1].dtype: unknown dtype 'U'; known are T, {KNOWN}",
            f"specialisations.T: {NO_TYPE}",
        ],
    ),
    "unknown dtype of a specialisation": (
        [('"float32", "float16"', '"float32", "half"')],
        ["specialisations.T.dtypes[1]: unknown dtype 'half'; write 'float16'"],
    ),
    "scalar of a small float": (
        [(A, 'dtype = "float16", value = 1e5')],
        ["arguments[2].value: 100000.0 is not a value of float16"],
    ),
    "scalar of a float without infinities": (
        [(A, 'dtype = "float8_e4m3fn", value = inf')],
        ["arguments[2].value: inf is not a value of float8_e4m3fn"],
    ),
    "scalar that makes all results alike": (
        [(A, 'dtype = "float32", value = nan')],
        [
            (
                "arguments[2].value: tuning would pass nan, with which wrong results look right; write a finite "
                "`value`, as in `value = 1.5`, which tuning passes"
            )
        ],
    ),
    "default of a call that makes all results alike": (
        [(A, 'dtype = "float32", default = inf')],
        [
            (
                "arguments[2].value: tuning would pass inf, with which wrong results look right; write a finite "
                "`value`, as in `value = 1.5`, which tuning passes"
            )
        ],
    ),
    "struct that is not declared": (
        [(A, 'dtype = "P", value = { k = 1 }'), ("[dims]", '[structs]\nP = { k = "int32" }\n\n[dims]')],
        ["template: does not declare 'P': write `{{ P }}` on a line of its own, before the kernel"],
    ),
    "struct with wrong fields": (
        [
            (A, 'dtype = "P", value = { k = 1 }'),
            (
                "[dims]",
                '[structs]\nP = { a = "flaot32", b = "T", c = "int32[0]", d = "int32[2][2]", e = "complex64" }\n[dims]',
            ),
        ],
        [
            "structs.P.a: unknown dtype 'flaot32'; did you mean 'float32'?",
            f"structs.P.b: unknown dtype 'T'; known are {KNOWN}",
            'structs.P.c: expected a type, or an array as in "int64[4]", found "int32[0]"',
            'structs.P.d: expected a type, or an array as in "int64[4]", found "int32[2][2]"',
            "structs.P.e: a field cannot be complex64; write its parts as two of float32",
            "template: does not declare 'P': write `{{ P }}` on a line of its own, before the kernel",
        ],
    ),
    "struct with a field that C++ cannot declare": (
        [
            (A, 'dtype = "P", value = { new = 1, int = 1 }'),
            ("[dims]", '[structs]\nP = { new = "int32", int = "int32" }\n\n[dims]'),
        ],
        [
            "structs.P.int: 'int' is a word of C++, where the template declares the struct; use another name",
            "structs.P.new: 'new' is a word of C++, where the template declares the struct; use another name",
            "template: does not declare 'P': write `{{ P }}` on a line of its own, before the kernel",
        ],
    ),
    "struct with a wrong value": (
        [
            (A, 'dtype = "P", value = { k = 1.5, ws = [1, 2], c = 300, d = [1], f = "m", g = "n" }'),
            (
                "[dims]",
                'structs.P = { k = "int32", w = "float32", c = "int8", d = "int8[2]", f = "int32", g = "int32[2]" }\n[dims]',  # noqa: E501
            ),
        ],
        [
            "arguments[2].value: says nothing for 'w'; add `w = ...`",
            "arguments[2].value.c: 300 is not a value of int8",
            "arguments[2].value.d: expected a list of 2 of int8, found 1",
            "arguments[2].value.f: unknown name 'm' in 'm'",
            "arguments[2].value.g: expected a list of 2 of int32, found one that is no list",
            "arguments[2].value.k: 1.5 is not a value of int32",
            "arguments[2].value.ws: P has no field 'ws'; did you mean 'w'?",
            "template: does not declare 'P': write `{{ P }}` on a line of its own, before the kernel",
        ],
    ),
    "struct without a value, with a default": (
        [
            (A, 'dtype = "P", default = 1'),
            ("[dims]", '[structs]\nP = { k = "int32", w = "float32" }\n\n[dims]'),
        ],
        [
            "arguments[2].default: a struct has no default; leave it out",
            (
                "arguments[2].value: a struct needs the value of each field that tuning passes: "
                "`value = { k = ..., w = ... }`"
            ),
            "template: does not declare 'P': write `{{ P }}` on a line of its own, before the kernel",
        ],
    ),
    "table for a number": (
        [(A, 'dtype = "float32", value = { k = 1 }')],
        ["arguments[2].value: is a table, and 'float32' is one number"],
    ),
    "struct that nothing is passed, empty, of a name that is taken": (
        [("[dims]", '[structs]\nP = {}\nT = { n = "int32" }\n\n[dims]')],
        [
            'structs.P: is empty; write its fields, as in `{ n = "int32", strides = "int64[4]" }`',
            'structs.P: no argument is passed one; give an argument `dtype = "P"`, or remove it',
            "structs.T: 'T' is already the name of something else of the spec; rename one",
        ],
    ),
    "shape without a value at a size": (
        [(f'{Y}, dtype = "T", shape = ["n"', f'{Y}, dtype = "T", shape = ["n", "8 // (n - 1024)"')],
        [f"arguments[0].shape: '8 // (n - 1024)' divides by zero at n=1024, {AT_FLOAT16}"],
    ),
    "size of what is no type": (
        [(f'{X}, dtype = "T", shape = ["n"', f'{X}, dtype = "T", shape = ["n", "sizeof(n)"')],
        ["arguments[1].shape[1]: sizeof(n) in 'sizeof(n)': 'n' is not a type"],
    ),
    "struct that is a dim": (
        [
            ('name = "n", dtype = "int32"', 'name = "n", dtype = "P"'),
            ("[dims]", '[structs]\nP = { k = "int32" }\n\n[dims]'),
        ],
        [f"arguments[3].name: 'n' {ALSO_A_NUMBER}"],
    ),
    "struct that is a derived name": (
        [
            (A, f'{A} }},\n  {{ name = "m", dtype = "P", value = {{ k = 1 }}'),
            ("[dims]", '[structs]\nP = { k = "int32" }\n\n[let]\nm = "n + 1"\n\n[dims]'),
        ],
        [f"arguments[3].name: 'm' {ALSO_A_NUMBER}"],
    ),
    "struct of an array": (
        [
            (X + ', dtype = "T"', X + ', dtype = "P"'),
            ("[dims]", '[structs]\nP = { k = "int32" }\n\n[dims]'),
        ],
        [
            "arguments[1].dtype: 'P' is a struct, which is passed by value; the elements of an array are numbers",
            f"specialisations.T: {NO_TYPE}",
        ],
    ),
    "struct of a hostile name": (
        [("[dims]", '[structs]\n"P; }; int main() {" = { "a; int b" = "int32" }\n\n[dims]')],
        [
            f"structs.{HOSTILE}: '{HOSTILE}' {NO_NAME}",
            f'structs.{HOSTILE}: no argument is passed one; give an argument `dtype = "{HOSTILE}"`, or remove it',
            f"structs.{HOSTILE}.a; int b: 'a; int b' {NO_NAME}",
        ],
    ),
    "complex value of a real scalar": (
        [(A, 'dtype = "float32", value = [1.0, 2.0]')],
        ["arguments[2].value: [1.0, 2.0] is not a value of float32"],
    ),
    "complex value beyond its type": (
        [(A, 'dtype = "complex64", value = [1e39, 2.0]')],
        ["arguments[2].value: [1e+39, 2.0] is not a value of complex64"],
    ),
    "three parts of a complex value": (
        [(A, 'dtype = "complex64", value = [1.0, 2.0, 3.0]')],
        [
            (
                "arguments[2].value: expected a number, or the two parts of a complex one as in `[1.0, -0.5]`, found "
                "[1.0, 2.0, 3.0]"
            )
        ],
    ),
    "bools as parts of a complex default": (
        [(A, 'dtype = "complex64", value = 1.0, default = [true, 0.5]')],
        [
            (
                "arguments[2].default: expected a number, or the two parts of a complex one as in `[1.0, -0.5]`, found "
                "[true, 0.5]"
            )
        ],
    ),
    "scalar beyond float32": (
        [(A, 'dtype = "float32", value = 1e300')],
        ["arguments[2].value: 1e+300 is not a value of float32"],
    ),
    "scalar of a specialisation": (
        [(A, 'dtype = "T", value = -1e5')],
        ["arguments[2].value: -100000.0 is not a value of float16"],
    ),
    "scalar of a specialisation by value": (
        [(A, 'dtype = "flag", value = 2.0'), add("specialisations", "flag = { values = [1, 2] }")],
        [
            (
                "arguments[2].dtype: 'flag' is a specialisation over values; a dtype is a type or a specialisation "
                "with `dtypes`"
            )
        ],
    ),
    "scalar's value of an unknown name": (
        [(A, 'dtype = "int32", value = "m - 1"')],
        ["arguments[2].value: unknown name 'm' in 'm - 1'"],
    ),
    "scalar's value of a parameter": (
        [(A, 'dtype = "int32", value = "n // block"')],
        ["arguments[2].value: unknown name 'block' in 'n // block'"],
    ),
    "scalar's value of a type": (
        [(A, 'dtype = "int32", value = "T + 1"')],
        ["arguments[2].value: 'T' is a type; only sizeof(T) has a value"],
    ),
    "scalar's value as a call": (
        [(A, """dtype = "int32", value = "__import__('os')" """)],
        [("arguments[2].value: '__import__('os')' calls '__import__'; only ceil_div, max, min, sizeof can be called")],
    ),
    "scalar's value that does not fit": (
        [(A, 'dtype = "uint32", value = "n - 2000"')],
        [
            (
                "arguments: the value of a scalar cannot be passed at n=1024, T=float16: 'n - 2000' is -976, and "
                "uint32 is an integer from 0 to 4294967295"
            )
        ],
    ),
    "scalar's value that divides by zero": (
        [(A, 'dtype = "uint32", value = "n // (n - 1024)"')],
        ["arguments: the value of a scalar cannot be passed at n=1024, T=float16: 'n // (n - 1024)' divides by zero"],
    ),
    "scalar's default that does not fit": (
        [(A, 'dtype = "int8", default = 300')],
        ["arguments[2].default: 300 is not a value of int8"],
    ),
    "scalar's default by expression": (
        [(A, 'dtype = "int32", value = 1, default = "n - 1"')],
        ['arguments[2].default: expected a number or a bool, found "n - 1"'],
    ),
    "scalar without default behind one with": (
        [
            ('  { name = "n", dtype', '  { name = "b", dtype = "float32", value = 1.0 },\n  { name = "n", dtype'),
            (A, f"{A}, default = 1.0"),
        ],
        [
            (
                "arguments[3]: 'b' has no `default`, and 'a' before it has one; give it a `default` as well, or put it "
                "before 'a', here and in the kernel"
            )
        ],
    ),
    "default of an array": (
        [(X, f"{X}, default = 1")],
        ["arguments[1].default: only a scalar has a default; an array has `fill`"],
    ),
    "default of a dim": (
        [('dtype = "int32"', 'dtype = "int32", default = 3')],
        ["arguments[3].default: 'n' takes its value from the call's problem; leave `default` out"],
    ),
    "scalar without value": (
        [(A, 'dtype = "float32"')],
        ["arguments[2]: 'a' is not a dim; a scalar needs the value that tuning passes, as in `value = 1.0`"],
    ),
    "scalar out of range": (
        [(A, 'dtype = "int8", value = 200')],
        ["arguments[2].value: 200 is not a value of int8"],
    ),
    "bool for an integer": (
        [(A, 'dtype = "int32", value = true')],
        ["arguments[2].value: true is not a value of int32"],
    ),
    "dim as a float": (
        [('dtype = "int32"', 'dtype = "float32"')],
        ["arguments[3].dtype: a dim is passed as int32, int64, uint32 or uint64, not 'float32'"],
    ),
    "dim with a value": (
        [('dtype = "int32"', 'dtype = "int32", value = 3')],
        ["arguments[3].value: 'n' takes its value from the call's problem; leave `value` out"],
    ),
    "array without role": (
        [(X, 'name = "x"')],
        [
            'arguments[1]: has `shape` but no role; write `role = "in"`, "out" or "inout" for an array',
            f"specialisations.T: {NO_TYPE}",
        ],
    ),
    "array without shape": (
        [(Y + ', dtype = "T", shape = ["n"]', Y + ', dtype = "T"')],
        ['arguments[0]: an array needs its shape; write `shape = ["n"]`'],
    ),
    "no output": (
        [(Y, 'name = "y", role = "in"')],
        ['arguments: no argument is written; give one `role = "out"` or `role = "inout"`'],
    ),
    "fill of no name": (
        [(X, f'{X}, fill = "random"')],
        [
            (
                'arguments[1].fill: is "random"; expected "normal", "uniform", "ones", "integers", or a range as in '
                "`{ from = 0, to = 255 }`"
            )
        ],
    ),
    "fill of a number": (
        [(X, f"{X}, fill = 3")],
        ["arguments[1].fill: expected a name, or a range as in `{ from = 0, to = 255 }`, found 3"],
    ),
    "fill without an end": (
        [(X, f"{X}, fill = {{ from = 0 }}")],
        ["arguments[1].fill.to: missing; write `to = ...`"],
    ),
    "fill backwards": (
        [(X, f"{X}, fill = {{ from = 2, to = 1.5 }}")],
        ["arguments[1].fill: goes from 2 to 1.5; write the lesser first"],
    ),
    "fill with an unknown name": (
        [(X, f"{X}, fill = {{ from = 0, to = 'm' }}")],
        ["arguments[1].fill.to: unknown name 'm' in 'm'"],
    ),
    "fill beyond the dtype": (
        [('"float32", "float16"', '"int8"'), (X, f"{X}, fill = {{ from = -200, to = 0.5 }}"), ("rtol", "#")],
        [
            "arguments[1].fill.from: -200 is not a value of int8: an integer from -128 to 127",
            "arguments[1].fill.to: is 0.5; int8 is an integer from -128 to 127",
        ],
    ),
    "fill of booleans": (
        [('"float32", "float16"', '"bool"'), (X, f"{X}, fill = {{ from = 0, to = 1 }}"), ("rtol", "#")],
        ["arguments[1].fill: booleans are filled with both; leave it out"],
    ),
    "fill of an output": (
        [(Y, f'{Y}, fill = "ones"')],
        ["arguments[0].fill: an output is poisoned, not filled; leave it out"],
    ),
    "shape names no dim": (
        [(Y + ', dtype = "T", shape = ["n"]', Y + ', dtype = "T", shape = ["nn"]')],
        ["arguments[0].shape[0]: shape names 'nn', which is not a dim; did you mean 'n'?"],
    ),
    "dim that no shape gives": ([add("dims", "m = { sizes = [4] }")], [f"dims.m: {NO_INPUT.format('m')}"]),
    "type that no input gives": (
        [(X + ', dtype = "T"', X + ', dtype = "float32"')],
        [f"specialisations.T: {NO_TYPE}"],
    ),
    "constant dim with sizes": (
        [("{ sizes =", "{ constant = true, sizes =")],
        ["dims.n.sizes: a constant dim is matched exactly; write `values = [1024, 65536]` in its place"],
    ),
    "dim with values": (
        [("{ sizes =", "{ values =")],
        [
            (
                "dims.n: needs the sizes to measure; write `sizes = [1024, 65536]`; or add `constant = true` to match "
                "`values` exactly"
            )
        ],
    ),
    "specialisation of nothing": (
        [add("specialisations", "U = {}")],
        ['specialisations.U: must have one of `dtypes = ["float32", ...]`, `values = [false, true]` or `from = "T"`'],
    ),
    "specialisation with a misspelt key": (
        [add("specialisations", 'U = { dtype = ["float32"] }')],
        ["specialisations.U.dtype: unknown key 'dtype'; did you mean 'dtypes'?"],
    ),
    "types that follow from nothing": (
        [add("specialisations", 'U = { from = "S", float32 = "float32" }')],
        ["specialisations.U.from: 'S' is not a specialisation with `dtypes`, or with `values` that are texts"],
    ),
    "a type that follows from a flag": (
        [add("specialisations", 'to = { values = [false, true] }\nU = { from = "to" }')],
        ["specialisations.U.from: 'to' is not a specialisation with `dtypes`, or with `values` that are texts"],
    ),
    "a type that follows from a keyword whose name is misspelt": (
        [add("specialisations", 'kind = { values = ["half"] }\nU = { from = "kinds", half = "float16" }')],
        [
            (
                "specialisations.U.from: 'kinds' is not a specialisation with `dtypes`, or with `values` that are "
                "texts; did you mean 'kind'?"
            ),
        ],
    ),
    "a type that follows from a keyword, and not for all of its values": (
        [add("specialisations", 'to = { values = ["half", "single"] }\nU = { from = "to", halve = "float16" }')],
        [
            'specialisations.U: says nothing for half; add `half = "..."`',
            'specialisations.U: says nothing for single; add `single = "..."`',
            "specialisations.U.halve: 'halve' is not one of to's values; did you mean 'half'?",
        ],
    ),
    "a keyword's value that is followed by no type": (
        [add("specialisations", 'to = { values = ["half"] }\nU = { from = "to", half = "half" }')],
        ["specialisations.U.half: unknown dtype 'half'; write 'float16'"],
    ),
    "a type that follows and is a list": (
        [
            add("specialisations", 'U = { from = "T", float32 = ["float32"], float16 = "float16" }'),
            ('role = "out", dtype = "T"', 'role = "out", dtype = "U"'),
        ],
        ["specialisations.U.float32: unknown dtype '['float32']'; did you mean 'float32'?"],
    ),
    "types that follow with a gap": (
        [add("specialisations", 'U = { from = "T", float32 = "float33" }')],
        [
            'specialisations.U: says nothing for float16; add `float16 = "..."`',
            "specialisations.U.float32: unknown dtype 'float33'; did you mean 'float32'?",
        ],
    ),
}

LISTS = "\n".join(f"p{i} = [{', '.join(map(str, range(100)))}]" for i in range(6))
DEFAULTS = "\n".join(f"p{i} = 0" for i in range(6))
SUM = f'block = ["block"]\nshared = "{" + ".join(f"p{i}" for i in range(6))}"'

SPACES = {
    "default outside the space": (
        [("block = 256", "block = 512")],
        ["default.block: 512 is outside the space; `space.block` has 128, 256"],
    ),
    "default of another kind": (
        [(DEFAULT_VEC, "\nvec = true\n")],
        ["default.vec: true is outside the space; `space.vec` has 1, 2, 4"],
    ),
    "default without a parameter": (
        [("block = 256\n", "")],
        ["default.block: missing; the default gives every parameter a value, as in `block = 128`"],
    ),
    "default with an unknown parameter": (
        [add("default", "blck = 1")],
        ["default.blck: 'blck' is not a parameter of the space; did you mean 'block'?"],
    ),
    "default as text": (
        [("block = 256", 'block = "256"')],
        ['default.block: is "256", which reads as 256; write that without quotes'],
    ),
    "default that a guard excludes": (
        [(DEFAULT_VEC, "\nvec = 2\n"), (', align = "vec * sizeof(T)"', "")],
        [
            "default: where[1] 'n % vec == 0' excludes the default (block=256, vec=2) at n=1, T=float16; " + LEGAL,
        ],
    ),
    "default that a guard excludes in spite of a demand": (
        [
            (DEFAULT_VEC, "\nvec = 4\n"),
            (', align = "vec * sizeof(T)"', ""),
            (WHERE, 'requires = ["n % 2 == 0"]\nwhere ='),
        ],
        [
            "default: where[1] 'n % vec == 0' excludes the default (block=256, vec=4) at n=2, T=float16; " + LEGAL,
        ],
    ),
    "default that a guard excludes at the end of int32": (
        [where("n + 1 < 2**31")],
        [
            "default: where[1] 'n + 1 < 2 ** 31' excludes the default (block=256, vec=1) at n=2147483647, T=float16; "
            + LEGAL,
        ],
    ),
    "default that a constraint excludes": (
        [where("block == 128")],
        [
            "default: where[1] 'block == 128' excludes the default (block=256, vec=1); " + LEGAL.partition(",")[0],
        ],
    ),
    "default that asks for alignment": (
        [(DEFAULT_VEC, "\nvec = 2\n"), (f', "{GUARD}"', "")],
        [
            (
                "default: aligns 'y' to 4 bytes (block=256, vec=2) for T=float16; an array is only aligned to its "
                "elements, and the default must be legal for every call: choose another, or write "
                '`requires = ["aligned(y, 2 * sizeof(T))"]`'
            )
        ],
    ),
    "constraint that leaves no configuration": (
        [("vec * sizeof(T) <= 16", "vec * sizeof(T) > 16")],
        ["constraints.where: leaves no configuration of the space; loosen it or add values"],
    ),
    "demand that leaves no problem": (
        [(WHERE, 'requires = ["n < 5"]\nwhere =')],
        ["constraints.requires: admits none of the problems that `sizes` give; loosen it or list other sizes"],
    ),
    "space of 10^12": (
        [add("space", LISTS), add("default", DEFAULTS), (BLOCK, SUM)],
        [
            (
                "space: has 6,000,000,000,000 combinations, more than 1,000,000,000; shorten the lists, or list "
                "configurations one by one as `space = [{...}, ...]`"
            )
        ],
    ),
    "parameter used nowhere": (
        [add("space", "unroll = [1, 2]"), add("default", "unroll = 1")],
        [
            (
                "space.unroll: parameter 'unroll' is used nowhere: not in the template, launches, options or `align`; "
                "remove it"
            )
        ],
    ),
    "configurations of different parameters": (
        [
            (f"[space]\nblock = [128, 256]{VEC}\n", ""),
            ("[dims]", "space = [{ block = 256, vec = 1 }, { block = 128 }]\n[dims]"),
        ],
        ["space[1]: every configuration names the same parameters; the first has block, vec"],
    ),
    "default that is not listed": (
        [
            (f"[space]\nblock = [128, 256]{VEC}\n", ""),
            ("[dims]", "space = [{ block = 256, vec = 2 }, { block = 128, vec = 1 }]\n[dims]"),
        ],
        ["default: is not one of the configurations that `space` lists"],
    ),
}

LAUNCHES = {
    "block too large": (
        [(BLOCK, 'block = ["block", 8]')],
        ["launches[0].block: the default has a block of 2048 threads at n=1024, T=float16; CUDA allows 1 to 1,024"],
    ),
    "block too deep": (
        [(BLOCK, 'block = [1, 1, "block // 2"]')],
        ["launches[0].block[2]: the default has 128 threads along it at n=1024, T=float16; CUDA allows 1 to 64"],
    ),
    "grid below 0": (
        [(GRID, 'grid = ["0 - n"]')],
        [
            (
                "launches[0].grid[0]: the default has -1024 blocks along it at n=1024, T=float16; CUDA allows 0 to "
                "2,147,483,647"
            )
        ],
    ),
    "grid too high": (
        [(GRID, 'grid = ["1", "100 * n"]')],
        ["launches[0].grid[1]: the default has 102400 blocks along it at n=1024, T=float16; CUDA allows 0 to 65,535"],
    ),
    "shared memory below 0": (
        [(BLOCK, 'block = ["block"]\nshared = "4 - n"')],
        [
            (
                "launches[0].shared: the default has -1020 bytes of shared memory at n=1024, T=float16; a block takes "
                "0 to 232,448"
            )
        ],
    ),
    "shared memory that no GPU has": (
        [(BLOCK, 'block = ["block"]\nshared = "500 * n"')],
        [
            (
                "launches[0].shared: the default has 512000 bytes of shared memory at n=1024, T=float16; a block takes "
                "0 to 232,448"
            )
        ],
    ),
    "grid without a value": (
        [(GRID, 'grid = ["n // (n - 1024)"]')],
        [
            "launches[0]: 'n // (n - 1024)' divides by zero at n=1024, T=float16, for the default (block=256, vec=1)",
        ],
    ),
    "unknown argument": (
        [add("[launches]", 'arguments = ["y", "xx"]')],
        ["launches[0].arguments[1]: unknown argument 'xx'; did you mean 'x'?"],
    ),
    "no such entry point": (
        [('function = "scale"', 'function = "scaled"')],
        ["launches[0].function: scale.cu.jinja has no 'scaled'; did you mean 'scale'?"],
    ),
    "cluster of a size that no GPU takes": (
        [add("[launches]", "cluster = [32]")],
        ["launches[0].cluster: has 32 blocks; a GPU takes up to 8, and some up to 16"],
    ),
    "cluster without blocks": (
        [add("[launches]", "cluster = [0]")],
        ["launches[0].cluster[0]: is 0; must be at least 1"],
    ),
    "cluster along an axis that the grid lacks": (
        [add("[launches]", "cluster = [2, 2]")],
        [
            (
                "launches[0].cluster: has 2 entries, and `grid` has 1; give the grid as many, "
                "since each is a multiple of the cluster's"
            )
        ],
    ),
    "cluster that the default's grid is not a multiple of": (
        [add("[launches]", "cluster = [8]")],
        [
            (
                "launches[0].grid[0]: the default has a grid of 4 blocks at n=1024, T=float16, which is not a multiple "
                "of its cluster's 8; round it up, as in `ceil_div(n, 8) * 8`"
            )
        ],
    ),
    "cluster that grows with a dim": (
        [add("[launches]", 'cluster = ["n // 4"]')],
        [
            "launches[0].cluster: the default has a cluster of 256 blocks at n=1024, T=float16; a GPU takes 1 to 16",
        ],
    ),
    "cluster of four extents": (
        [add("[launches]", "cluster = [1, 1, 1, 1]")],
        ["launches[0].cluster: has 4 entries; at most 3 are allowed"],
    ),
    "cluster beyond every integer": (
        [add("[launches]", 'cluster = ["2 ** 70"]')],
        ["launches[0].cluster[0]: '2 ** 70' has no value: a result is beyond 2 ** 62"],
    ),
    "cluster that divides by zero": (
        [add("[launches]", 'cluster = ["n // 0"]')],
        ["launches[0]: 'n // 0' divides by zero at n=1024, T=float16, for the default (block=256, vec=1)"],
    ),
    "grid beyond what resident blocks give a value": (
        [(GRID, 'grid = ["2 ** device.resident_blocks"]')],
        [
            (
                "launches[0]: '2 ** device.resident_blocks' has no value: a result is beyond 2 ** 62 at n=1024, "
                "T=float16, for the default (block=256, vec=1)"
            )
        ],
    ),
    "cooperative that is no bool": (
        [add("[launches]", "cooperative = 1")],
        ["launches[0].cooperative: expected true or false, found 1"],
    ),
    "overlap that is not pdl": (
        [add("[launches]", 'overlap = "early"')],
        ["""launches[0].overlap: is "early"; expected 'pdl'"""],
    ),
    "cooperative launch with overlap": (
        [add("[launches]", 'cooperative = true\noverlap = "pdl"')],
        ["launches[0].overlap: a cooperative launch waits until the device holds all its blocks; leave `overlap` out"],
    ),
    "resident blocks outside of a grid": (
        [add("[launches]", 'shared = "device.resident_blocks"'), where("n % vec == 0 and device.resident_blocks > 4")],
        [
            (
                "constraints.where[1]: 'device.resident_blocks' has no value here; only the grid of a launch may read "
                "it, whose blocks it counts"
            ),
            (
                "launches[0].shared: 'device.resident_blocks' has no value here; only the grid of a launch may read "
                "it, whose blocks it counts"
            ),
        ],
    ),
    "scratch that no launch is passed": (
        [("[dims]", 'scratch = [{ name = "part", dtype = "T", shape = ["block"] }]\n[dims]')],
        ["scratch[0]: 'part' is passed to no launch; name it in the `arguments` of one"],
    ),
    "reference in no file": (
        [("reference.py:scale", "refrence.py:scale")],
        ["verify.reference: 'refrence.py' does not exist beside the spec; did you mean 'reference.py'?"],
    ),
    "reference that its file lacks": (
        [("reference.py:scale", "reference.py:scales")],
        ["verify.reference: 'reference.py' defines no 'scales'; did you mean 'scale'?"],
    ),
    "reference no function": (
        [("reference.py:scale", "reference.scale")],
        ["verify.reference: 'reference.scale' names no function; write \"reference.py:scale\""],
    ),
    "a reference for the GPU alone": (
        [("reference = ", "gpu-reference = ")],
        ["verify.gpu-reference: is compared with `reference`, which is missing; name that as well"],
    ),
    "a reference for the GPU that is not there": (
        [("[verify]\n", '[verify]\ngpu-reference = "reference.py:on_gpu"\n')],
        ["verify.gpu-reference: 'reference.py' defines no 'on_gpu'"],
    ),
    "template missing": (
        [("format  = 1", 'format = 1\ntemplate = "scale.cu.jinj"')],
        ["template: 'scale.cu.jinj' does not exist beside the spec; did you mean 'scale.cu.jinja'?"],
    ),
    "template elsewhere": (
        [("format  = 1", 'format = 1\ntemplate = "../scale.cu.jinja"')],
        ["template: '../scale.cu.jinja' is not a path below the spec's folder; write it with '/', and without '..'"],
    ),
    "option with an undefined name": (
        [("[constraints]", '[compile]\noptions = ["-DX={{ blok }}"]\n\n[constraints]')],
        ["compile.options[0]: undefined name 'blok'; did you mean 'block'?"],
    ),
    "architecture among the options": (
        [("[constraints]", '[compile]\noptions = ["-lineinfo", "--gpu-architecture=sm_80"]\n\n[constraints]')],
        [
            (
                "compile.options[1]: '--gpu-architecture=sm_80': remove it; "
                "every device's own architecture is compiled for (`arch-specific = true` asks for sm_90a)"
            ),
        ],
    ),
    "option with two values": (
        [("[constraints]", '[compile]\noptions = ["-DA=1", "-DA=2", "--ftz=true", "-ftz=false"]\n\n[constraints]')],
        ["compile.options[3]: '-ftz=false' contradicts '--ftz=true', and the compiler would take the last; remove one"],
    ),
    "option that is no template": (
        [("[constraints]", '[compile]\noptions = ["-DX={{ block"]\n\n[constraints]')],
        [
            "compile.options[0]: option '-DX={{ block': unexpected end of template, expected 'end of print statement'",
        ],
    ),
}


def cost(term: str) -> list[tuple[str, str]]:
    return [("[verify]\n", f'[cost]\nterms = ["{term}"]\n\n[verify]\n')]


COSTS = {
    "cost over an unknown name": (
        cost("ceil_div(n, blok)"),
        ["cost.terms[0]: unknown name 'blok' in 'ceil_div(n, blok)'; did you mean 'block'?"],
    ),
    "cost without a dim": (
        cost("block * vec"),
        [
            (
                "cost.terms[0]: 'block * vec' is the same at every size, and such a term is there already; "
                "name a dim, or remove it"
            )
        ],
    ),
    "cost that divides by a dim": (
        cost("65536 // n"),
        [
            (
                "cost.terms[0]: '65536 // n' divides by what need not be positive; "
                "divide by numbers, parameters, or `max(1, ...)`"
            )
        ],
    ),
    "cost with a power": (
        cost("n ** 2"),
        ["cost.terms[0]: 'n ** 2' has a power of a dim; multiply instead, as in `n * n`"],
    ),
    "negative cost": (
        cost("n - 2048 * vec"),
        [
            (
                "cost.terms[0]: 'n - 2048 * vec' is -1024 at n=1024, T=float16; "
                "a term takes time, so it is at least 0: write max(0, ...)"
            )
        ],
    ),
    "cost without a value": (
        cost("n * 4611686018427387904"),
        ["cost.terms[0]: 'n * 4611686018427387904' has no value: a result is beyond 2 ** 62 at n=1024, T=float16"],
    ),
}
CASES = STRUCTURE | VALUES | EXPRESSIONS | NAMES | ARGUMENTS | SPACES | LAUNCHES | COSTS


@pytest.mark.parametrize(("edits", "lines"), CASES.values(), ids=CASES)
def test_a_slip_is_named_with_its_path_and_remedy(tmp_path, edits, lines):
    assert faults(tmp_path, *edits) == [f"scale.toml: {line}" for line in lines]


BODY = "y[i] ="
RAW = "put {% raw %} and {% endraw %} around it"
TEMPLATES = {
    "undefined name": ((BODY, "y[i] = {{ vecs }} *"), "scale.cu.jinja:7: undefined name 'vecs'; did you mean 'vec'?"),
    "undefined name unlike any": (
        (BODY, "float z[1][1] = {{i}};"),
        "scale.cu.jinja:7: undefined name 'i'; known are T, block, vec. In C++, write '{ {' for two braces",
    ),
    "dim": (
        (BODY, "y[i] = {{ n }} *"),
        "scale.cu.jinja:7: undefined name 'n'; a dim is passed to the kernel as an argument",
    ),
    "include of nothing": (
        (BODY, '{% include "lost.cuh" %}'),
        "scale.cu.jinja:7: there is no 'lost.cuh' to include",
    ),
    "misspelt include": (
        (BODY, '{% include "plane.cu.jinja" %}'),
        "scale.cu.jinja:7: there is no 'plane.cu.jinja' to include; did you mean 'plain.cu.jinja'?",
    ),
    "computed include": (
        (BODY, '{% include vec ~ ".cuh" %}'),
        'scale.cu.jinja:7: includes a computed name; write the file\'s, as in "part.cuh"',
    ),
    "unclosed tag": (
        (BODY, "{% for i in range(vec) %}{% if i %}{% endif %}"),
        "scale.cu.jinja:7: '{% for %}' is not closed; write '{% endfor %}' where it ends",
    ),
    "unknown tag": (
        (BODY, "{% fi %}"),
        (
            "scale.cu.jinja:7: '{%' begins a tag of Jinja, which '%}' ends: Encountered unknown tag 'fi'; if this is "
            f"C++, write '{{ %' or {RAW}: {{% fi %}} static_cast<{{{{ T }}}}>(a * static_cast<float>(x[i]));"
        ),
    ),
    "brackets over lines": (
        (BODY, "const int table[2][2] = {{1, 2},\n {3, 4}};"),
        (
            "scale.cu.jinja:7: '{{' begins an expression of Jinja, which '}}' ends: unexpected '}'; if this is C++, "
            f"write '{{ {{' or {RAW}: const int table[2][2] = {{{{1, 2}},"
        ),
    ),
    "numbers in two braces": (
        (BODY, "const float table[1][2] = {{0, 0.5}};"),
        (
            "scale.cu.jinja:7: '{{0, 0.5}}' prints no name of the spec, and Jinja takes its braces away; if this is "
            f"C++, write '{{ {{0, 0.5}} }}' or {RAW}; if it is not, write it without braces"
        ),
    ),
    "unknown filter": ((BODY, "{{ vec | doubled }}"), "scale.cu.jinja:7: No filter named 'doubled'"),
    "loop without an end": (
        (BODY, "{% for i in range(10 ** 12) %}{% endfor %}"),
        "scale.cu.jinja:7: range(0, 1000000000000) has more than 1,000,000 numbers; let the kernel go around instead",
    ),
    "no spelling": (
        (BODY, "{{ [vec] }}"),
        "scale.cu.jinja:7: a value of type list has no spelling in CUDA C++; render a number, a bool or a type",
    ),
    "None": (
        (BODY, "{% set nothing = none %}{{ nothing }}"),
        "scale.cu.jinja:7: a value of type NoneType has no spelling in CUDA C++; render a number, a bool or a type",
    ),
    "infinity": (
        (BODY, "{{ vec * 1e308 * 10 }}"),
        "scale.cu.jinja:7: inf has no spelling in CUDA C++; render a number, a bool or a type",
    ),
    "error in rendering": ((BODY, "{{ 1 // (vec - 1) }}"), "scale.cu.jinja:7: integer division or modulo by zero"),
}


@pytest.mark.parametrize(("edit", "message"), TEMPLATES.values(), ids=TEMPLATES)
def test_a_slip_in_a_template_is_named_with_its_line(tmp_path, edit, message):
    found = faults(tmp_path, template=edited(SCALE_TEMPLATE, edit))

    assert found == [f"scale.toml: template: {message}"]


@pytest.mark.parametrize(
    "text", ['{{ "{{" }}1, 2}, {3, 4}}', "{% raw %}{{0}}{% endraw %}", "{ {0} }", "{{ vec }}{# 0 #}"]
)
def test_braces_that_are_written_for_c_or_for_jinja_are_let_through(tmp_path, text):
    assert faults(tmp_path, template=edited(SCALE_TEMPLATE, (BODY, f"// {text}\n{BODY}"))) == []


def test_an_undefined_name_of_an_included_file_is_named_with_that_file(tmp_path):
    (tmp_path / "part.cuh").write_text("constexpr int unrolled = {{ unrol }};", encoding="utf-8")

    found = faults(tmp_path, template='{% include "part.cuh" %}\n' + SCALE_TEMPLATE)

    known = "known are T, block, vec. In C++, write '{ {' for two braces"
    assert found == ["scale.toml: template: part.cuh:1: undefined name 'unrol'; " + known]


def test_a_template_that_is_not_text_is_a_fault(tmp_path):
    file = write(tmp_path)
    (tmp_path / "scale.cu.jinja").write_bytes(b"\xff\xfe")

    with pytest.raises(SpecError) as caught:
        load(file)

    assert str(caught.value) == "invalid kernel spec (1 problem):\n  scale.toml: template: scale.cu.jinja: is not UTF-8"


def test_a_reference_that_python_cannot_parse_is_a_fault(tmp_path):
    file = write(tmp_path)
    (tmp_path / "reference.py").write_text(f"{REFERENCE}\ndef broken(:\n", encoding="utf-8")

    with pytest.raises(SpecError) as caught:
        load(file)

    assert [str(fault) for fault in caught.value.faults] == [
        "scale.toml: verify.reference: 'reference.py' cannot be imported: invalid syntax (line 4)"
    ]


@pytest.mark.parametrize(
    ("edits", "lines"),
    [
        (
            [('implementation = "vectors"', 'implementation = "vector"')],
            ["default.implementation: is \"vector\", which is not an implementation; did you mean 'vectors'?"],
        ),
        (
            [('[default]\nimplementation = "vectors"\n', "")],
            [
                (
                    'default.implementation: missing; write `implementation = "plain" or "vectors"`: '
                    "the one that is the baseline"
                )
            ],
        ),
        (
            [("[default]", "[default]\nvec = 1")],
            ["default.vec: write it in the `default` of each of the [implementations.NAME] tables instead"],
        ),
        (
            [("format = 1", 'format = 1\ntemplate = "scale.cu.jinja"')],
            ["template: write `template` in each of the [implementations.NAME] tables instead"],
        ),
        (
            [("[dims]", '[constraints]\nwhere = ["n > 0"]\n[dims]')],
            ["constraints.where: write `where` in each of the [implementations.NAME] tables instead"],
        ),
        (
            [("[verify]", '[implementations.library]\ncall = "cupy:multiply"\n[verify]')],
            [
                (
                    "implementations.library.call: a library call is passed arrays only, so the scalar 'a' would "
                    "have no effect; only a kernel without scalars can have one"
                )
            ],
        ),
        (
            [("default  = { block = 128 }", "default  = { block = 64 }")],
            ["implementations.plain.default.block: 64 is outside the space; `space.block` has 128, 256"],
        ),
        (
            [("default  = { block = 128 }", 'default  = { block = 128 }\nconstraints = { where = ["block > 128"] }')],
            [
                "implementations.plain.default: where[0] 'block > 128' excludes the default (block=128); "
                + LEGAL.partition(",")[0]
            ],
        ),
        (
            [("default  = { vec = 1 }", "default  = { vec = 1 }\nconstraints = { where = [\"T == 'float16'\"] }")],
            [
                "implementations.vectors.default: where[0] `T == 'float16'` excludes the default (vec=1) at T=float32; "
                + LEGAL.partition(",")[0]
            ],
        ),
        (
            [("default  = { block = 128 }", 'default  = { block = 128 }\nconstraints = { where = ["n < block"] }')],
            ["implementations.plain.constraints.where: leaves no configuration of the space; loosen it or add values"],
        ),
        (
            [("default  = { block = 128 }", 'default  = { block = 128 }\nconstraints = { requires = ["n > 0"] }')],
            [
                (
                    "implementations.plain.constraints.requires: write it at the top, as `[constraints] requires`: "
                    "it holds whatever implements the kernel"
                )
            ],
        ),
    ],
)
def test_a_slip_among_several_implementations_names_the_one(tmp_path, edits, lines):
    assert faults(tmp_path, *edits, toml=SEVERAL) == [f"scale.toml: {line}" for line in lines]


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        *[(dtype.cuda, name) for name, dtype in DTYPES.items() if dtype.cuda not in DTYPES and dtype.parts == 1],
        ("half", "float16"),
        ("bf16", "bfloat16"),
        ("nv_bfloat16", "bfloat16"),
        ("fp8_e4m3", "float8_e4m3fn"),
        ("char", "int8"),
        ("size_t", "uint64"),
        ("std::uint32_t", "uint32"),
        ("torch.float16", "float16"),
    ],
)
def test_a_dtype_by_another_name_is_answered_by_what_to_write(tmp_path, name, remedy):
    found = faults(tmp_path, (A, f'dtype = "{name}", value = 2.0'))

    assert found == [f"scale.toml: arguments[2].dtype: unknown dtype '{name}'; write '{remedy}'"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("float4", "unknown dtype 'float4'; write 'float32', and cast the pointer in the kernel"),
        ("__half2", "unknown dtype '__half2'; write 'float16', and cast the pointer in the kernel"),
        (
            "float2",
            (
                "unknown dtype 'float2'; write 'complex64' for complex numbers; for vectors write 'float32', and cast "
                "the pointer in the kernel"
            ),
        ),
        ("cuDoubleComplex", "unknown dtype 'cuDoubleComplex'; write 'complex128'"),
        ("torch.cfloat", "unknown dtype 'torch.cfloat'; write 'complex64'"),
    ],
)
def test_a_dtype_of_several_numbers_is_answered_by_how_to_do_without(tmp_path, name, said):
    assert (
        faults(tmp_path, (X + ', dtype = "T"', f'{X}, dtype = "{name}"'))[0]
        == f"scale.toml: arguments[1].dtype: {said}"
    )


def test_a_misspelt_table_has_no_consequences(tmp_path):
    found = faults(tmp_path, ("[dims]", "[dimz]"), ("[[launches]]", "[[launch]]"), ("function", "fuction"))

    assert found == [
        "scale.toml: dimz: unknown key 'dimz'; did you mean 'dims'?",
        "scale.toml: launch: unknown key 'launch'; did you mean 'launches'?",
        "scale.toml: launches[0].fuction: unknown key 'fuction'; did you mean 'function'?",
    ]


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("[dims]", "[dimensions]", "dimensions: unknown key 'dimensions'; did you mean 'dims'?"),
        ("[space]", "[parameters]", "parameters: unknown key 'parameters'; did you mean 'space'?"),
        ('role = "in"', 'kind = "in"', "arguments[1].kind: unknown key 'kind'; did you mean 'role'?"),
        ("[[launches]]", "[launches]", "launches: is one table; write [[launches]], with two brackets"),
    ],
)
def test_a_key_as_it_is_called_elsewhere_is_one_fault(tmp_path, old, new, place):
    assert faults(tmp_path, (old, new)) == [f"scale.toml: {place}"]


def test_faults_come_in_the_order_of_their_paths_and_once_each(tmp_path):
    many = "".join(f'  {{ name = "s{i}", dtype = "int33", value = 1 }},\n' for i in range(9))

    found = faults(tmp_path, ("]\n\n[dims]", f"{many}]\n\n[dims]"))

    assert found == [
        f"scale.toml: arguments[{index}].dtype: unknown dtype 'int33'; did you mean 'int32'?" for index in range(4, 13)
    ]


def test_the_faults_of_all_files_are_raised_together(tmp_path):
    write(tmp_path, edited(SCALE, ("block = 256", "block = 512")))
    write(
        tmp_path, edited(SCALE, (GUARD, "n % vecs == 0"), ("format", 'template = "scale.cu.jinja"\nformat')), name="b"
    )

    with pytest.raises(SpecError) as caught:
        load_folder(tmp_path)

    assert str(caught.value) == (
        "invalid kernel spec (2 problems):\n"
        "  b.toml: constraints.where[1]: unknown name 'vecs' in 'n % vecs == 0'; did you mean 'vec'?\n"
        "  scale.toml: default.block: 512 is outside the space; `space.block` has 128, 256"
    )


def test_two_kernels_of_one_name_are_refused(tmp_path):
    files = []
    for part in ("one", "two"):
        (tmp_path / part).mkdir()
        files.append(write(tmp_path / part))

    with pytest.raises(SpecError) as caught:
        load_files(files)

    assert str(caught.value) == (
        "invalid kernel spec (1 problem):\n"
        f"  {files[1]}: a second kernel named 'scale'; the first is {files[0]}: rename one file"
    )


def test_a_kernel_whose_name_is_no_function_name_is_refused(tmp_path):
    write(tmp_path, edited(SCALE, ("format  = 1", 'format = 1\ntemplate = "scale.cu.jinja"')), name="my-scale")

    with pytest.raises(SpecError) as caught:
        load_folder(tmp_path)

    assert [str(fault) for fault in caught.value.faults] == [
        (
            "my-scale.toml: 'my-scale' is not a Python name, and a kernel becomes a function of its file's name; "
            "rename the file"
        )
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("format = ", "cannot be read as TOML: Invalid value (at end of document)"),
        (
            f"format = {'9' * 5000}",
            "cannot be read as TOML: Exceeds the limit (4300 digits) for integer string conversion",
        ),
        (f"format = {'[' * 5000}", "cannot be read as TOML: "),
    ],
)
def test_a_file_that_is_no_toml_is_refused(tmp_path, text, message):
    (tmp_path / "bad.toml").write_text(text, encoding="utf-8")

    with pytest.raises(SpecError) as caught:
        load_folder(tmp_path)

    assert str(caught.value).startswith(f"invalid kernel spec (1 problem):\n  bad.toml: {message}")


def test_a_folder_without_specs_is_refused(tmp_path):
    with pytest.raises(SpecError) as nothing:
        load_folder(tmp_path)
    with pytest.raises(SpecError) as missing:
        load_folder(tmp_path / "kernels")

    assert str(nothing.value).endswith("holds no NAME.toml; a kernel is NAME.toml beside NAME.cu.jinja")
    assert str(missing.value).endswith("no such folder; `kernels` names the folder of the specs")


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path):
    spec = loaded(tmp_path)
    for name in ("scale.toml", "scale.cu.jinja"):
        text = (tmp_path / name).read_text()
        (tmp_path / name).write_text("\ufeff" + text, encoding="utf-8")
    assert load(tmp_path / "scale.toml") == spec
    assert "\ufeff" not in render(tmp_path, "scale.cu.jinja", {"vec": 1, "block": 128, "T": "float"})


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(SpecError) as caught:
        load(tmp_path / "scale.toml")

    assert str(caught.value) == f"invalid kernel spec (1 problem):\n  scale.toml: does not exist in {tmp_path}"


def test_the_templates_of_these_tests_are_sound(tmp_path):
    assert faults(tmp_path) == []
    assert faults(tmp_path, toml=SEVERAL) == []
    assert faults(tmp_path, template=PLAIN_TEMPLATE) == []
