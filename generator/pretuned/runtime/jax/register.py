"""The handlers, by the names under which programs of XLA call them."""

from __future__ import annotations

import sys
import threading
from ctypes import c_void_p, cast, pythonapi
from types import ModuleType

from ..errors import qualified
from ..table import KERNELS, PACKAGE
from .frame import HANDLER
from .handler import FfiTarget, RefusedTarget
from .library import jax

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_thread = threading.local()


def register() -> None:
    """Register a handler for each kernel of the package, and for other platforms one that says what to do.

    XLA takes a name once and calls what it got for as long as the process lives. So what it gets stays, over a reload
    of the package too, and asks for the handler of the day.
    """
    lasting = f"{PACKAGE} as XLA knows it"
    known = sys.modules.setdefault(lasting, ModuleType(lasting)).__dict__
    for kernel in KERNELS.values():
        name = qualified(kernel.name)
        for platform, target in (("CUDA", FfiTarget), ("cpu", RefusedTarget), ("ROCM", RefusedTarget)):
            key, today = f"{name} {platform}", target(kernel)
            if key in known:
                known[key].target = today
                continue
            known[key] = lasts = Lasting(today)
            stages = {stage: jax.ffi.pycapsule(address) for stage, address in lasts.stages()}
            jax.ffi.register_ffi_target(name, stages, platform=platform)


def _stay() -> None:
    """Have Python keep the calling thread, which is XLA's, as one of its own for as long as it lives.

    Otherwise it makes a state for the thread at each call and drops it behind, which takes 10 us (measured). XLA's
    threads live as long as the process.
    """
    pythonapi.PyGILState_Ensure()
    _thread.stays = True


class Lasting:
    """The functions of C that XLA calls for a kernel, over what they call in turn."""

    def __init__(self, target: FfiTarget) -> None:
        self.target = target
        self._instantiate = HANDLER(lambda frame: self.target.instantiate(frame))  # noqa: PLW0108 - `target` changes
        self._execute = HANDLER(self._executed)

    def _executed(self, frame: int) -> int | None:
        try:
            _thread.stays  # noqa: B018 - whether it is there is asked
        except AttributeError:
            _stay()
        return self.target.execute(frame)

    def stages(self) -> Iterator[tuple[str, int | None]]:
        """Yield the stages of XLA's at which it is called, each with an address."""
        yield "instantiate", cast(self._instantiate, c_void_p).value
        yield "execute", cast(self._execute, c_void_p).value
