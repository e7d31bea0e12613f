"""T1 files become specs that `pretuned check` accepts, and what T1 does not say is listed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pretuned.cli import main
from pretuned.errors import Error
from pretuned.exchange import t1
from pretuned.exchange.to_spec import spec_files
from pretuned.render import source_of
from pretuned.spec import space
from pretuned.spec.loader import load

DATA = Path(__file__).parents[1] / "data"
FILES = [
    DATA / "benchmark_hub" / "convolution_T1.json",
    DATA / "benchmark_hub" / "dedispersion_T1.json",
    DATA / "h100" / "stream_T1.json",
]
PROJECT = '[build-system]\nrequires = ["setuptools"]\n\n[project]\nname = "demo"\nversion = "1"\n'
KERNEL = "__global__ void scale(float *y, const float *x, float a, int n) {\n    // {{ as it stands }}\n}\n"
T1 = {
    "ConfigurationSpace": {
        "TuningParameters": [
            {"Name": "block_size_x", "Type": "int", "Values": "[32 * i for i in range(1, 5)]", "Default": 64},
            {"Name": "wide", "Type": "int", "Values": "[0, 1]", "Default": 0},
        ],
        "Conditions": [{"Expression": "block_size_x / 32 in [1, 2, 4] and not wide == 2", "Parameters": []}],
    },
    "KernelSpecification": {
        "Language": "CUDA",
        "KernelName": "scale",
        "KernelFile": "scale.cu",
        "CompilerOptions": ["-std=c++14", "--use_fast_math"],
        "ProblemSize": [1000],
        "GlobalSizeType": "OpenCL",
        "GlobalSize": {"X": "ProblemSize[0]"},
        "LocalSize": {"X": "block_size_x", "Y": "1"},
        "SharedMemory": 128,
        "Arguments": [
            {
                "Name": "y",
                "Type": "float4",
                "MemoryType": "Vector",
                "AccessType": "ReadWrite",
                "Size": "ProblemSize[0]",
            },
            {"Name": "x", "Type": "half", "MemoryType": "Vector", "AccessType": "ReadOnly", "Size": 1000},
            {"Name": "a", "Type": "float", "MemoryType": "Scalar", "FillValue": 2},
            {"Name": "n", "Type": "int32", "MemoryType": "Scalar", "FillValue": 1000},
        ],
    },
}


def written(folder, data, kernel=KERNEL):
    (folder / "scale_T1.json").write_text(json.dumps(data))
    if kernel:
        (folder / "scale.cu").write_text(kernel)
    made = spec_files(folder / "scale_T1.json")
    for name, text in made.texts.items():
        (folder / name).write_text(text)
    return made, load(folder / f"{made.kernel}.toml")


def changed(**kernel):
    return T1 | {"KernelSpecification": T1["KernelSpecification"] | kernel}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_project_gets_a_kernel_that_check_accepts(tmp_path, capsys, path):
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "__init__.py").touch()
    for command in (["init", "--from-t1", str(path)], ["check"]):
        with pytest.raises(SystemExit) as end:
            main([*command, "--project", str(tmp_path)])
        captured = capsys.readouterr()
        assert end.value.code in ({0} if command[0] == "init" else {0, 4}), captured  # 4: nothing is tuned yet
    name = path.name.removesuffix("_T1.json")
    spec = load(tmp_path / "kernels" / f"{name}.toml")

    (problem,) = space.problems(spec, ())
    assert sum(1 for _ in space.configurations(spec, problem)) == t1.read(path).count()


def test_a_kernel_keeps_its_text_behind_a_macro_for_each_parameter(tmp_path):
    _, spec = written(tmp_path, T1)

    text = source_of(spec, (), space.default(spec)).text

    assert "#define block_size_x 64\n#define wide 0\n" in text
    assert text.endswith(f'extern "C" {KERNEL}')


def test_arguments_launch_and_constraints_are_what_the_file_says(tmp_path):
    made, spec = written(tmp_path, T1)

    y, x, a, n = spec.arguments
    assert (y.role, y.dtype, [str(extent) for extent in y.shape]) == ("inout", "float32", ["1000", "4"])
    assert (x.role, x.dtype) == ("in", "float16")
    assert (a.value, n.value, n.dtype) == (2.0, 1000, "int32")
    (launch,) = spec.launches
    assert [str(extent) for extent in (*launch.grid, *launch.block, launch.shared)] == [
        "ceil_div(1000, block_size_x)",
        "block_size_x",
        "128",
    ]
    assert spec.compile.options == ("--use_fast_math",)
    (problem,) = space.problems(spec, ())
    legal = {dict(c.values)["block_size_x"] for c in space.configurations(spec, problem)}
    assert legal == {32, 64, 128}
    assert made.open_points == ("scale_reference.py: compute the outputs with NumPy",)


def test_texts_and_floats_stay_what_they_are(tmp_path):
    parameters = [
        *T1["ConfigurationSpace"]["TuningParameters"],
        {"Name": "walk", "Type": "string", "Values": "['row', 'column']", "Default": "row"},
        {"Name": "share", "Type": "float", "Values": "[0.5, 1]", "Default": 1},
    ]
    data = T1 | {"ConfigurationSpace": T1["ConfigurationSpace"] | {"TuningParameters": parameters}}

    made, spec = written(tmp_path, data)

    assert (spec.space["walk"], spec.space["share"]) == (("column", "row"), (0.5, 1.0))
    assert (spec.default["walk"], spec.default["share"], type(spec.default["share"])) == ("row", 1.0, float)
    assert "#define walk {{ walk }}\n#define share {{ share }}\n" in made.texts["scale.cu.jinja"]


def test_a_parameter_of_texts_and_numbers_is_an_error(tmp_path):
    parameters = [
        *T1["ConfigurationSpace"]["TuningParameters"],
        {"Name": "walk", "Type": "string", "Values": "['row', 2]", "Default": "row"},
    ]
    with pytest.raises(Error, match="the parameter 'walk' has texts and numbers, as 'row'; a spec's has one kind"):
        written(tmp_path, T1 | {"ConfigurationSpace": T1["ConfigurationSpace"] | {"TuningParameters": parameters}})


def test_the_grid_is_the_problem_by_its_divisors(tmp_path):
    _, spec = written(tmp_path, changed(GridDivX=["block_size_x", "4"]))

    assert [str(extent) for extent in spec.launches[0].grid] == ["ceil_div(1000, block_size_x * 4)"]


@pytest.mark.parametrize(
    ("change", "point"),
    [
        ({"KernelFile": "absent.cu"}, "scale.cu.jinja: put the kernel 'scale' in the place of the empty one"),
        ({"Arguments": []}, "arguments: name what the kernel reads and writes, in launch order"),
    ],
)
def test_what_the_file_lacks_is_listed_and_stands_in_the_spec(tmp_path, change, point):
    made, _ = written(tmp_path, changed(**change))

    assert point in made.open_points
    assert f"# To complete: {point}.\n" in made.texts["scale.toml"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Language": "OpenCL"}, "KernelSpecification.Language is 'OpenCL'; only CUDA kernels become specs"),
        ({"LocalSize": {"X": "open('x')"}}, "KernelSpecification.LocalSize.X: "),
        ({"Arguments": [3]}, "KernelSpecification.Arguments is not a list of objects"),
    ],
)
def test_what_cannot_become_a_spec_is_an_error_that_names_the_place(tmp_path, change, message):
    with pytest.raises(Error, match=r"scale_T1\.json") as error:
        written(tmp_path, changed(**change))
    assert message in str(error.value)
