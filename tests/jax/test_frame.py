"""The layouts that the handler reads, against the header that jaxlib ships, and calls of XLA's functions."""

import ctypes
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

jax = pytest.importorskip("jax")

PLACES = {
    "XLA_FFI_CallFrame": ["extension_start", "api", "ctx", "stage", "args", "rets", "attrs"],
    "XLA_FFI_Args": ["size", "types", "args"],
    "XLA_FFI_Rets": ["size", "types", "rets"],
    "XLA_FFI_Attrs": ["size", "types", "names", "attrs"],
    "XLA_FFI_Buffer": ["dtype", "data", "rank", "dims"],
    "XLA_FFI_ByteSpan": ["ptr", "len"],
    "XLA_FFI_Metadata": ["api_version", "traits"],
    "XLA_FFI_Metadata_Extension": ["extension_base", "metadata"],
    "XLA_FFI_Extension_Base": ["type", "next"],
    "XLA_FFI_Api_Version": ["major_version", "minor_version"],
    "XLA_FFI_Api": [
        "api_version",
        "internal_api",
        "XLA_FFI_Error_Create",
        "XLA_FFI_Error_GetMessage",
        "XLA_FFI_Error_Destroy",
        "XLA_FFI_Stream_Get",
        "XLA_FFI_DeviceOrdinal_Get",
    ],
    "XLA_FFI_Error_Create_Args": ["message", "errc"],
    "XLA_FFI_Error_GetMessage_Args": ["error", "message"],
    "XLA_FFI_Stream_Get_Args": ["ctx", "stream"],
    "XLA_FFI_DeviceOrdinal_Get_Args": ["ctx", "device_ordinal"],
}
RENAMED = {  # in version 0.4
    "XLA_FFI_Extension_Base": "XLA_FFI_InternalExtension",
    "XLA_FFI_Error_GetMessage": "XLA_FFI_Error_GetDetails",
}
TYPES = {
    "bool": "PRED",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8E4M3FN",
    "float8_e5m2": "F8E5M2",
    "complex64": "C64",
    "complex128": "C128",
}


@pytest.fixture(scope="module")
def header(tmp_path_factory):
    """What the header says, by a program that a C++ compiler makes of it."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler is installed")
    folder = tmp_path_factory.mktemp("header")
    names = [(one, field) for one, fields in PLACES.items() for field in fields]
    lines = [f'std::printf("{one}.{field} %zu\\n", offsetof({one}, {field}));' for one, field in names]
    lines += [f'std::printf("{one} %zu\\n", sizeof({one}));' for one in PLACES]
    types = {
        name: TYPES.get(name) or name.replace("uint", "U").replace("int", "S").replace("float", "F") for name in DT
    }
    lines += [f'std::printf("{name} %d\\n", XLA_FFI_DataType_{theirs});' for name, theirs in types.items()]
    lines += ['std::printf("major %d\\n", XLA_FFI_API_MAJOR);']
    lines += ['std::printf("metadata %d\\n", XLA_FFI_Extension_Metadata);']
    lines += ['std::printf("captured %d\\n", XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE);']
    lines += ['std::printf("refused %d\\n", XLA_FFI_Error_Code_FAILED_PRECONDITION);']
    lines += ['std::printf("internal %d\\n", XLA_FFI_Error_Code_INTERNAL);']
    declared = (Path(jax.ffi.include_dir()) / "xla/ffi/api/c_api.h").read_text()
    for old, new in RENAMED.items():
        if new in declared:
            lines = [re.sub(rf"(, |\(){old}", rf"\1{new}", line) for line in lines]
    head = "#include <cstddef>\n#include <cstdio>\n"
    # The header's last struct names the types of its fields, which a C++ compiler takes in C alone.
    include = '#include "xla/ffi/api/c_api.h"\n'
    (folder / "header.cpp").write_text(f"{head}{include}int main() {{ {' '.join(lines)} }}\n")
    command = [compiler, "-fpermissive", "-w", f"-I{jax.ffi.include_dir()}", "header.cpp", "-o", "header"]
    subprocess.run(command, cwd=folder, check=True)
    found = subprocess.run([folder / "header"], capture_output=True, text=True, check=True).stdout
    return {name: int(number) for name, number in (line.split() for line in found.splitlines())}


DT = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32"),
    *("float64", "complex64", "bfloat16", "complex128", "float8_e5m2", "float8_e4m3fn"),
)


@pytest.fixture
def frame(part):
    return part("jax.frame")


def test_a_frame_lies_as_the_header_says(frame, header):
    begins = [int(place) for place in places(frame.FRAME.format)]
    wanted = {
        frame.EXTENSION_START: "XLA_FFI_CallFrame.extension_start",
        frame.API_AT: "XLA_FFI_CallFrame.api",
        frame.CONTEXT: "XLA_FFI_CallFrame.ctx",
        4: "XLA_FFI_CallFrame.stage",
        frame.ARGUMENTS: "XLA_FFI_CallFrame.args XLA_FFI_Args.size",
        frame.ARGUMENT_LIST: "XLA_FFI_CallFrame.args XLA_FFI_Args.args",
        frame.RESULTS: "XLA_FFI_CallFrame.rets XLA_FFI_Rets.size",
        frame.RESULT_LIST: "XLA_FFI_CallFrame.rets XLA_FFI_Rets.rets",
        frame.ATTRIBUTE_LIST: "XLA_FFI_CallFrame.attrs XLA_FFI_Attrs.attrs",
    }
    assert {place: begins[place] for place in wanted} == {
        place: sum(header[part] for part in names.split()) for place, names in wanted.items()
    }
    assert frame.FRAME.size == header["XLA_FFI_CallFrame.attrs"] + header["XLA_FFI_Attrs"]


def places(codes):
    """Return where each value of struct codes begins."""
    found, before = [], "="
    for count, code in zip(*[iter(split(codes[1:]))] * 2, strict=True):
        for _ in range(1 if code == "x" else int(count)):
            if code != "x":
                found.append(struct.calcsize(before))
            before += code if code != "x" else f"{count}x"
    return found


def split(codes):
    """Return counts and codes in turn."""
    count = ""
    for letter in codes:
        if letter.isdigit():
            count += letter
        else:
            yield count or "1"
            yield letter
            count = ""


def test_buffers_spans_and_metadata_lie_as_the_header_says(frame, header):
    names = [f"XLA_FFI_Buffer.{field}" for field in PLACES["XLA_FFI_Buffer"]]
    assert places(frame.BUFFER.format)[2:] == [header[name] for name in names]
    assert frame.BUFFER.size == header["XLA_FFI_Buffer"]
    assert header["XLA_FFI_Buffer.data"] == frame.DATA_AT
    assert frame.SPAN.size == header["XLA_FFI_ByteSpan"]
    assert places(frame.EXTENSION.format)[1] == header["XLA_FFI_Extension_Base.type"]
    assert places(frame.EXTENSION.format)[3] == header["XLA_FFI_Metadata_Extension.metadata"]
    version = header["XLA_FFI_Metadata.api_version"]
    assert version + header["XLA_FFI_Api_Version.major_version"] == frame.MAJOR_AT
    assert version + header["XLA_FFI_Api_Version.minor_version"] == frame.MINOR_AT
    assert header["XLA_FFI_Metadata.traits"] == frame.TRAITS_AT
    assert (header["major"], header["metadata"], header["captured"]) == (
        frame.MAJOR,
        frame.METADATA,
        frame.COMMAND_BUFFER_COMPATIBLE,
    )


def test_the_table_of_functions_lies_as_the_header_says(frame, header):
    api = {field: header[f"XLA_FFI_Api.{field}"] for field in PLACES["XLA_FFI_Api"]}
    assert api["XLA_FFI_Error_Create"] == frame.ERROR_CREATE
    assert api["XLA_FFI_Error_GetMessage"] == frame.ERROR_MESSAGE
    assert api["XLA_FFI_Error_Destroy"] == frame.ERROR_DESTROY
    assert api["XLA_FFI_Stream_Get"] == frame.STREAM_GET
    assert api["XLA_FFI_DeviceOrdinal_Get"] == frame.DEVICE_ORDINAL_GET
    assert places(frame.API.format)[4:6] == [
        api["api_version"] + header["XLA_FFI_Api_Version.major_version"],
        api["api_version"] + header["XLA_FFI_Api_Version.minor_version"],
    ]
    assert (header["refused"], header["internal"]) == (frame.FAILED_PRECONDITION, frame.INTERNAL)
    for one, fields in (
        (frame.ErrorCreate, ("Error_Create", "message errc", "message code")),
        (frame.ErrorMessage, ("Error_GetMessage", "error message", "error message")),
        (frame.StreamGet, ("Stream_Get", "ctx stream", "context stream")),
        (frame.DeviceOrdinalGet, ("DeviceOrdinal_Get", "ctx device_ordinal", "context ordinal")),
    ):
        name, theirs, ours = fields
        for their, our in zip(theirs.split(), ours.split(), strict=True):
            assert getattr(one, our).offset == header[f"XLA_FFI_{name}_Args.{their}"]
        assert ctypes.sizeof(one) >= header[f"XLA_FFI_{name}_Args"]


def test_element_types_have_xlas_numbers(frame, header, part):
    assert {header[name]: name for name in DT} == frame.DTYPES_OF_XLA
    assert set(DT) == set(part("types").DTYPES)


def test_a_stream_that_xla_refuses_is_an_error_with_its_text(tuned, cuda, part, monkeypatch):
    handler = part("jax.handler")
    monkeypatch.setattr(handler.FfiTarget, "_stream", lambda _target, frame: part("jax.frame").stream_of(frame))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"jpkg\.tuned\.affine: ForeignError: .+"):
        tuned.affine(jax.numpy.ones((16, 64)), 1.5, relu=False).block_until_ready()


def test_xla_says_which_device_a_call_runs_on(tuned, cuda, part, monkeypatch):
    handler, found = part("jax.handler"), []
    plain = handler.FfiTarget._execute
    monkeypatch.setattr(
        handler.FfiTarget,
        "_execute",
        lambda target, frame: (found.append(part("jax.frame").ordinal_of(frame)), plain(target, frame))[1],
    )
    tuned.affine(jax.numpy.ones((16, 64)), 1.5, relu=False).block_until_ready()
    assert found == [0]
