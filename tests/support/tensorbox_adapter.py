"""An adapter for the arrays of a library named tensorbox, in a file of its own."""

import importlib
import sys
from contextlib import contextmanager


class TensorBox:
    """How arrays and streams of tensorbox are read; `adapters` is the module of a generated package."""

    name = "tensorbox"

    def __init__(self, adapters):
        self._adapters = adapters

    def owns(self, value):
        library = sys.modules.get("tensorbox")  # never imported here: whoever has its arrays has imported it
        return library is not None and isinstance(value, library.Box)

    def view(self, where, value, stream, *, written):
        if written and value.frozen:
            raise ValueError(f"{where}: is frozen, and the kernel writes to it")
        return self._adapters.ArrayView(
            value.address, value.dtype, value.shape, value.device, value.nbytes, owner=value
        )

    def device_of(self, value):
        return value.device

    def current_stream(self, device):
        return sys.modules["tensorbox"].current_stream(device)

    def stream_of(self, stream):
        return None  # its streams are handles

    @contextmanager
    def on(self, device, stream):
        with sys.modules["tensorbox"].device(device):
            yield

    @contextmanager
    def allocating(self, where, device, stream):
        with self.on(device, stream):
            yield lambda shape, dtype: sys.modules["tensorbox"].Box(shape, dtype, device)

    def taken_in(self, value):
        raise NotImplementedError("no library implementation calls tensorbox")

    def expressions(self):
        return None  # calls take the slow path


class FastTensorBox(TensorBox):
    """The same, with a fast path."""

    def expressions(self):
        library = sys.modules["tensorbox"]
        return self._adapters.Expressions(
            address="{a}.address",
            dtype="{a}.dtype",
            device="{a}.device",
            contiguous="",
            each="not {a}.frozen",
            stream="stream_of(ordinal)",
            current_device="device_of()",
            names={
                "stream_of": library.current_stream,
                "device_of": library.current_device,
                "empty": library.Box,
            },
            type_of=sys.intern,  # types are compared with `is`
        )


def add_to(package, adapter=TensorBox):
    """Let a generated package, such as "mypkg.tuned", read arrays of tensorbox."""
    adapters = importlib.import_module(f"{package}._runtime.adapters")
    adapters.register(adapter(adapters))
