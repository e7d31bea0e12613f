"""Data that somebody made to do harm, and a project among other things of a user's to try it on."""

from __future__ import annotations

import ast
import copy
import json
import re

import pytest

from builders import H100, rows, selections
from locks import sealed
from pretuned.cli import main
from pretuned.record import lock as lockfile
from pretuned.record.lock import Lock
from specs import SCALE_TEMPLATE, loaded, write

TEMPLATE = "#include <cuda_fp16.h>\n" + SCALE_TEMPLATE
MODULE = "demo/tuned"
TABLE = '[tool.pretuned]\nmodule = "demo/tuned"\ncubins = false\n'
OURS = range(1, 10)  # the statuses of our errors
# What would run if a text got into generated code as it stands; all of them can be shown on a line.
TEXTS = (
    '";import os;"',
    "');import os;('",
    '""";import os;"""',
    "'''",
    "\\",
    '\\";import os',
    "\\N{BULLET}\\x22;import os",
    "{__import__('os').system('touch pwned')}",
    "{{ cycler.__init__.__globals__.os }}",
    "# fmt: on",
    "${HOME} $(touch pwned) `touch pwned`",
    "../../../pwned",
    "x" * 100_000,
)
UNPRINTABLE = ("a\nimport os\n", "a\rb", "\x1b[2J", "\u2028import os", "a\0b", "\ud800", "\u202egnp.exe")


ODD = (5, -1, 10**4000, 2**70, "x", "9" * 2000, None, True, 1.5, float("nan"), float("inf"), [], [[]], [1, 2, 3], {})
ODD_TABLES = ({"n": 5}, {"m": 5}, {"1": -1})
# What Python or a library says of a value that it cannot take, and nobody wrote for the person who reads it.
RAW = re.compile(
    r"object (has|is) n|unpack|indices|unhashable|iterable|argument|NoneType|Error|[Ii]nput should|too large"
)


def places(value, path=()):
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in entries:
        yield from places(item, (*path, key))


def spoilt(document):
    """The document with one thing another, or gone, in its first selection."""
    gone = object()
    for path in places(document["selections"][0]):
        for odd in (*ODD, *ODD_TABLES, gone):
            found = copy.deepcopy(document)
            inside = found["selections"]
            *above, last = (0, *path)
            for key in above:
                inside = inside[key]
            if odd is gone:
                del inside[last]
            else:
                inside[last] = odd
            yield found


def brief(value):
    """Name a case by its value, or by its begin."""
    text = value if isinstance(value, str) else repr(value)
    return None if callable(value) else text if len(text) < 50 else f"{text[:20]}-{len(text)}"


def constants(tree):
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


class Area:
    """`project` among other things of the user's below `root`; `other` is beside it."""

    def __init__(self, root, capsys):
        self.root, self.capsys = root, capsys
        self.project, self.other = root / "project", root / "other"
        self.other.mkdir(parents=True)
        (self.project / "kernels").mkdir(parents=True)
        (root / "mine.txt").write_text("mine")
        (self.project / "pyproject.toml").write_text(TABLE)
        write(self.project / "kernels", template=TEMPLATE)

    def listing(self):
        """What stands where, but for the generated package."""
        entries = {}
        for path in sorted(self.root.rglob("*")):
            name = path.relative_to(self.root).as_posix()
            if f"/{MODULE}" not in f"/{name}" and name != "project/demo" and "__pycache__" not in name:
                content = path.read_bytes() if path.is_file() else None
                entries[name] = path.readlink() if path.is_symlink() else content
        return entries

    def run(self, *arguments):
        """Run a command and return (status, what it said); it writes nothing but the generated package, and exits."""
        before = self.listing()
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert self.listing() == before
        captured = self.capsys.readouterr()
        return end.value.code, captured.out + captured.err

    def refused(self, *arguments):
        """Return what an error of ours says."""
        status, said = self.run(*arguments)
        assert status in OURS, said
        assert "error: " in said
        return said

    def lock(self, *, selected=False):
        """A lock of the project as JSON, to be spoilt; with its selections where they are asked for."""
        spec = loaded(self.project / "kernels", template=TEMPLATE)
        rules = selections(spec) if selected else []
        return json.loads(lockfile.dumps(Lock().updated({H100.name: H100}, rows(spec), (), rules)))

    def put(self, document):
        text = document if isinstance(document, str) else json.dumps(sealed(document))
        (self.project / "pretuned.lock.json").write_text(text, encoding="utf-8", errors="surrogatepass")

    def generated(self):
        """Return the generated module's tree, having seen that data stand in it as literals, and nothing else does."""
        tree = ast.parse((self.project / MODULE / "__init__.py").read_text(encoding="utf-8"))
        for one in _statements(tree.body):
            assert _is_expected(one), ast.unparse(one)[:200]
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert not names & {"os", "sys", "eval", "exec", "compile", "open", "__import__", "import_module", "getattr"}
        return tree


class _Costs(ast.NodeTransformer):
    """Puts a literal in the place of each function that is nothing but arithmetic over its parameters."""

    def visit_Lambda(self, node):
        parameters = {argument.arg for argument in node.args.args}
        plain = (ast.Tuple, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.IfExp, ast.operator, ast.unaryop)
        for part in ast.walk(node.body):
            allowed = isinstance(part, (*plain, ast.cmpop, ast.boolop, ast.expr_context))
            assert allowed or type(getattr(part, "value", None)) is int or part.id in parameters, ast.dump(part)
        return ast.Constant(0)


def _statements(nodes):
    """Yield statements, and those behind each `else`, where data stand apart from their types."""
    for node in nodes:
        yield node
        yield from _statements(getattr(node, "orelse", ()))


def _is_expected(node):
    """Whether a statement is of a kind that generated modules have; tables raise where they are no literals."""
    match node:
        case ast.Expr(value=ast.Constant(value=str())) | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.FunctionDef(decorator_list=decorators):
            return all(isinstance(decorator, ast.Name) for decorator in decorators)
        case ast.ImportFrom(module=module):
            return (module or "").partition(".")[0] in {"__future__", "_runtime"}
        case ast.Assign(
            targets=[ast.Name(id="TYPE_CHECKING" | "__all__" | "DEVICES" | "TABLE" | "_SHIPPED" | "_BINARIES")],
            value=value,
        ):
            return ast.literal_eval(value) is not None
        case ast.Assign(targets=[ast.Name(id="SELECTIONS")], value=value):
            return ast.literal_eval(_Costs().visit(value)) is not None
        case _:
            return isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("Kernel(")
