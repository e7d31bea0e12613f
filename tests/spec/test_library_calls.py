"""Library functions as implementations: what a spec says of them, and what it may not say."""

from __future__ import annotations

import pickle

import pytest

from library_specs import faults, loaded
from pretuned.render import candidate, source_of
from pretuned.spec import space
from pretuned.spec.guards import guards
from pretuned.spec.library import LibraryCall
from pretuned.spec.space import Configuration
from pretuned.spec.templates import RenderError

CALL = 'call = "cupy:multiply"'
LIBRARY = Configuration(implementation="library", values=())
FLOAT32 = (("T", "float32"),)


def test_a_call_takes_all_inputs_in_order_and_writes_to_out(tmp_path):
    spec = loaded(tmp_path)

    assert spec.all_implementations["plain"].call is None
    assert spec.all_implementations["library"].call == LibraryCall(
        module="cupy", function="multiply", arguments=("a", "b")
    )
    assert spec.all_implementations["library"].call.out == "keyword"
    assert (
        pickle.loads(pickle.dumps(spec)).all_implementations["library"].call == spec.all_implementations["library"].call
    )


def test_a_call_may_name_its_arguments_and_be_copied_from(tmp_path):
    spec = loaded(tmp_path, (CALL, 'call = "torch:linalg.multi_dot"\narguments = ["b", "a"]\nout = "copy"'))

    call = spec.all_implementations["library"].call
    assert call == LibraryCall(module="torch", function="linalg.multi_dot", arguments=("b", "a"), out="copy")
    assert str(call) == "torch.linalg.multi_dot"


def test_a_call_is_one_configuration_beside_those_of_templates(tmp_path):
    spec = loaded(tmp_path)
    problem = next(space.problems(spec, FLOAT32))

    listed = list(space.configurations(spec, problem))
    assert [str(configuration) for configuration in listed] == ["plain: block=128", "library", "plain: block=256"]
    assert not guards(spec, FLOAT32, LIBRARY)


def test_constraints_limit_a_call_to_dtypes_and_guard_it_by_sizes(tmp_path):
    where = '\nconstraints = { where = ["sizeof(T) == 8", "n % 2048 == 0"] }'
    spec = loaded(tmp_path, (CALL, CALL + where))

    legal = [
        (dict(problem.specialisation)["T"], dict(problem.dims)["n"])
        for specialisation in space.specialisations(spec)
        for problem in space.problems(spec, specialisation)
        if space.legal(spec, problem, LIBRARY)
    ]
    assert legal == [("float64", 65536)]
    assert guards(spec, (("T", "float64"),), LIBRARY).where == ("n % 2048 == 0",)


def test_a_candidate_that_is_a_call_has_no_source_and_a_key_of_what_is_called(tmp_path):
    spec = loaded(tmp_path)
    made = candidate(spec, FLOAT32, LIBRARY)
    assert made.source is None
    with pytest.raises(RenderError, match=r"library: calls cupy\.multiply, and has no source"):
        source_of(spec, FLOAT32, LIBRARY)

    def key(*edits):
        return candidate(loaded(tmp_path, *edits), FLOAT32, LIBRARY).key

    assert key(("y = a * b.", "The product.")) == made.key
    assert key((CALL, f'{CALL}\narguments = ["a", "b"]')) == made.key
    others = [
        key((CALL, 'call = "cupy:add"')),
        key((CALL, 'call = "torch:multiply"')),
        key((CALL, f'{CALL}\narguments = ["b", "a"]')),
        key((CALL, f'{CALL}\nout = "copy"')),
        key(('{ name = "n", dtype = "int32" }', '{ name = "n", dtype = "int64" }')),
    ]
    assert len({made.key, *others}) == 6


AT = "product.toml: implementations.library"
ARRAYS = "is not an input (`in` or `inout`)"
SLIPS = {
    "another package": (
        [("cupy:multiply", "jax:multiply")],
        [f"{AT}.call: 'jax' is not a library that can be called; known are cupy, torch"],
    ),
    "a misspelt package": (
        [("cupy:multiply", "pytorch:multiply")],
        [f"{AT}.call: 'pytorch' is not a library that can be called; did you mean 'torch'?"],
    ),
    "a dot for the colon": (
        [("cupy:multiply", "cupy.multiply")],
        [f"{AT}.call: 'cupy.multiply' names no function of a library; write `call = \"cupy:matmul\"`"],
    ),
    "no function's name": (
        [("cupy:multiply", "cupy:_core.multiply")],
        [
            (
                f"{AT}.call: '_core.multiply' is not the name of a public function; write `call = \"cupy:matmul\"`, "
                'or with a dot as in "cupy:linalg.norm"'
            )
        ],
    ),
    "an unknown argument": (
        [(CALL, f'{CALL}\narguments = ["a", "c"]')],
        [f"{AT}.arguments[1]: 'c' {ARRAYS}; those are a, b"],
    ),
    "the output as argument": (
        [(CALL, f'{CALL}\narguments = ["a", "y"]')],
        [f"{AT}.arguments[1]: 'y' {ARRAYS}; those are a, b"],
    ),
    "no arguments": (
        [(CALL, f"{CALL}\narguments = []")],
        [f"{AT}.arguments: a library call is passed at least one array; name some of a, b"],
    ),
    "another way out": (
        [(CALL, f'{CALL}\nout = "return"')],
        [f"{AT}.out: is \"return\"; expected 'keyword' or 'copy'"],
    ),
    "a template too": (
        [(CALL, f'{CALL}\ntemplate = "product.cu.jinja"\nspace = {{ block = [32] }}')],
        [
            f"{AT}.space: a library call has no `space`; leave it out",
            f"{AT}.template: a library call has no `template`; leave it out",
        ],
    ),
    "neither template nor call": (
        [(CALL, 'out = "copy"')],
        [
            f"{AT}.launches: missing; write `launches = [{{ function, grid, block }}]` or [[launches]] tables",
            f"{AT}.out: only a library call has `out`; leave it out, or write `call`",
            f'{AT}.template: missing; write `template = "NAME.cu.jinja"`, or `call = "cupy:matmul"` for a library',
        ],
    ),
    "the default": (
        [('implementation = "plain"', 'implementation = "library"')],
        [
            (
                'product.toml: default.implementation: is "library", a library call; the default runs wherever nothing '
                "else does, also without the library: name an implementation with a template"
            )
        ],
    ),
    "a scalar that a call would not heed": (
        [('{ name = "n", dtype', '{ name = "s", dtype = "float32", value = 1.0 },\n{ name = "n", dtype')],
        [
            (
                f"{AT}.call: a library call is passed arrays only, so the scalar 's' would have no effect; only a "
                "kernel without scalars can have one"
            )
        ],
    ),
    "several outputs": (
        [('{ name = "a", role = "in"', '{ name = "a", role = "inout"')],
        [f"{AT}.call: a library call writes one output, and this kernel writes y, a; write a template"],
    ),
    "an unknown name in a constraint": (
        [(CALL, f'{CALL}\nconstraints = {{ where = ["block > 1"] }}')],
        [f"{AT}.constraints.where[0]: unknown name 'block' in 'block > 1'"],
    ),
    "a constraint that nothing fulfils": (
        [(CALL, f'{CALL}\nconstraints = {{ where = ["n < 10"] }}')],
        [f"{AT}.constraints.where: leaves no configuration of the space; loosen it or add values"],
    ),
    "at the top": (
        [("[dims]", f"{CALL}\n[dims]")],
        ["product.toml: call: a library call is one of several implementations; write an [implementations.NAME] table"],
    ),
}


@pytest.mark.parametrize(("edits", "lines"), SLIPS.values(), ids=SLIPS)
def test_a_slip_in_a_call_is_told_with_what_to_write(tmp_path, edits, lines):
    assert faults(tmp_path, *edits) == lines
