"""What XLA hands a handler, as bytes: the call frame, its buffers, its attributes, the table of functions.

Names and layouts are those of XLA's public header `xla/ffi/api/c_api.h`, versions 0.1 to 0.4, which every jaxlib ships.
The structs are read by `struct`, in one step each: ctypes' own attributes take several times as long.
"""

from __future__ import annotations

from ctypes import (
    CFUNCTYPE,
    PYFUNCTYPE,
    Structure,
    addressof,
    c_char_p,
    c_int,
    c_int32,
    c_size_t,
    c_uint64,
    c_void_p,
    string_at,
)
from ctypes import sizeof as bytes_of
from struct import Struct

from ..types import DTYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

HANDLER = CFUNCTYPE(c_void_p, c_void_p)  # XLA_FFI_Error* (XLA_FFI_CallFrame*); takes the GIL
FRAME = Struct("=4QI4x5Q5Q6Q")  # XLA_FFI_CallFrame up to `attrs`
API = Struct("=4Q2iQ")  # XLA_FFI_Api up to `internal_api`; then come its functions
BUFFER = Struct("=2QI4xQ2Q")  # XLA_FFI_Buffer
EXTENSION = Struct("=QI4x2Q")  # XLA_FFI_Metadata_Extension
SPAN = Struct("=2Q")  # XLA_FFI_ByteSpan
DATA_AT = 24  # where a buffer's address stands in XLA_FFI_Buffer
# Places of the words of a frame.
EXTENSION_START, API_AT, CONTEXT = 1, 2, 3
ARGUMENTS, ARGUMENT_LIST, RESULTS, RESULT_LIST, ATTRIBUTE_LIST = 7, 9, 12, 14, 20
METADATA = 1  # XLA_FFI_Extension_Type
# In XLA_FFI_Metadata: `api_version.major_version`, `.minor_version`, `traits`.
MAJOR_AT, MINOR_AT, TRAITS_AT = 24, 28, 32
COMMAND_BUFFER_COMPATIBLE = 1
MAJOR, MINOR = 0, 4  # the newest version whose layouts these are; JAX 0.10 has 0.3, and 0.11 has 0.4
# In XLA_FFI_Api.
ERROR_CREATE, ERROR_MESSAGE, ERROR_DESTROY, STREAM_GET, DEVICE_ORDINAL_GET = 48, 56, 64, 80, 184
FAILED_PRECONDITION, INTERNAL = 9, 13  # XLA_FFI_Error_Code
DTYPES_OF_XLA = {dtype.xla: name for name, dtype in DTYPES.items()}
_FUNCTION = PYFUNCTYPE(c_void_p, c_void_p)  # keeps the GIL: what is called here returns at once
_functions: dict[int, Callable[[int], int | None]] = {}


class ErrorCreate(Structure):
    """XLA_FFI_Error_Create_Args."""

    _fields_ = (("struct_size", c_size_t), ("extension", c_void_p), ("message", c_char_p), ("code", c_int))


class ErrorMessage(Structure):
    """XLA_FFI_Error_GetMessage_Args, which from version 0.4 on is XLA_FFI_Error_GetDetails_Args and has a code.

    Those of XLA_FFI_Error_Destroy end with the error.
    """

    _fields_ = (
        *(("struct_size", c_size_t), ("extension", c_void_p), ("error", c_void_p), ("message", c_char_p)),
        ("code", c_int),
    )


class StreamGet(Structure):
    """XLA_FFI_Stream_Get_Args."""

    _fields_ = (("struct_size", c_size_t), ("extension", c_void_p), ("context", c_void_p), ("stream", c_void_p))


_STREAM_GET_BYTES = bytes_of(StreamGet)


class DeviceOrdinalGet(Structure):
    """XLA_FFI_DeviceOrdinal_Get_Args."""

    _fields_ = (("struct_size", c_size_t), ("extension", c_void_p), ("context", c_void_p), ("ordinal", c_int32))


class ForeignError(Exception):
    """A function of XLA answered with an error, whose text this has."""


_at = c_uint64.from_address


def word(address: int) -> int:
    """Return the 8 bytes at an address as an integer."""
    return _at(address).value


def words_of(count: int) -> Callable[[int], tuple[int, ...]]:
    """Return what reads so many words from an address on."""
    unpack, nbytes = Struct(f"={count}Q").unpack, 8 * count
    return lambda address: unpack(string_at(address, nbytes)) if nbytes else ()


def text_of(frame: tuple[int, ...]) -> bytes:
    """Return the one attribute of a call, which is a text."""
    start, length = SPAN.unpack(string_at(word(frame[ATTRIBUTE_LIST]), SPAN.size))
    return string_at(start, length)


def buffers_of(frame: tuple[int, ...]) -> list[tuple[str, tuple[int, ...]]]:
    """Return dtype and shape of a call's operands and results; a type that no kernel can have is its number."""
    found = []
    operands = words_of(frame[ARGUMENTS])(frame[ARGUMENT_LIST])
    for address in (*operands, *words_of(frame[RESULTS])(frame[RESULT_LIST])):
        _, _, dtype, _, rank, dims = BUFFER.unpack(string_at(address, BUFFER.size))
        found.append((DTYPES_OF_XLA.get(dtype, f"XLA's type {dtype}"), words_of(rank)(dims)))
    return found


def version_of(api: int) -> tuple[int, int]:
    """Return the version of the table of functions at an address."""
    *_, major, minor, _ = API.unpack(string_at(api, API.size))
    return major, minor


def describe(frame: tuple[int, ...]) -> None:
    """Answer a question for metadata: the version that this handler is written for, and that it may be captured.

    XLA takes the minor versions of a year up to its own, and one that differs in the major version has other layouts.
    """
    extension = frame[EXTENSION_START]
    _, kind, _, metadata = EXTENSION.unpack(string_at(extension, EXTENSION.size))
    if kind != METADATA:
        return
    major, minor = version_of(frame[API_AT]) if frame[API_AT] else (MAJOR, 1)
    c_int32.from_address(metadata + MAJOR_AT).value = MAJOR
    c_int32.from_address(metadata + MINOR_AT).value = min(minor, MINOR) if major == MAJOR else 1
    c_int32.from_address(metadata + TRAITS_AT).value = COMMAND_BUFFER_COMPATIBLE


def stream_of(frame: tuple[int, ...]) -> int:
    """Return the handle of the stream that a call is to be launched on."""
    asked = StreamGet(_STREAM_GET_BYTES, None, frame[CONTEXT], None)
    _ask(frame, STREAM_GET, addressof(asked))
    return asked.stream or 0


def ordinal_of(frame: tuple[int, ...]) -> int | None:
    """Return the ordinal of the device that a call runs on; None where XLA is too old to say it."""
    if word(frame[API_AT]) < DEVICE_ORDINAL_GET + 8:
        return None
    asked = DeviceOrdinalGet(DeviceOrdinalGet.ordinal.offset + 4, None, frame[CONTEXT], 0)
    _ask(frame, DEVICE_ORDINAL_GET, addressof(asked))
    return int(asked.ordinal)


def refuse(frame: tuple[int, ...], message: str, code: int = INTERNAL) -> int | None:
    """Return an error of XLA's, which a handler returns in turn and XLA destroys."""
    text = message.encode(errors="replace")
    made = ErrorCreate(ErrorCreate.code.offset + 4, None, text, code)
    return _function(frame[API_AT], ERROR_CREATE)(addressof(made))


def _ask(frame: tuple[int, ...], function: int, arguments: int) -> None:
    """Call a function of XLA; raises ForeignError for the error that it answers."""
    error = _function(frame[API_AT], function)(arguments)
    if not error:
        return
    asked = ErrorMessage(ErrorMessage.code.offset + 4, None, error, None, 0)
    _function(frame[API_AT], ERROR_MESSAGE)(addressof(asked))
    message = asked.message or b""
    asked.struct_size = ErrorMessage.message.offset
    _function(frame[API_AT], ERROR_DESTROY)(addressof(asked))
    raise ForeignError(message.decode(errors="replace"))


def _function(api: int, place: int) -> Callable[[int], int | None]:
    address = word(api + place)
    found = _functions.get(address)
    if found is None:
        found = _functions[address] = _FUNCTION(address)
    return found
