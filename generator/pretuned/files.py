"""Writing files and folders so that each is whole or not there, and removing what killed processes left of them.

Theory of operation. Content is written into a temporary file or folder beside its place, which is then renamed. Its
writer holds a lock (flock) on it. The lock ends with the process, however that ends; so what has a temporary's name
and is not locked was left by a process that is gone, and the next one that writes there removes it.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import errno
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

from pretuned.errors import StorageError

_MARK: Final = ".writing-"  # in the names of what lies beside its place while it is written
TEMPORARY: Final = f".*{_MARK}*"  # a pattern of these names
_TEMPORARY: Final = re.compile(rf"\.([^/]+){re.escape(_MARK)}[a-z0-9_]{{8}}(?=/|$)")
_SCRATCH: Final = "pretuned-scratch-"
_RANDOM: Final = r"[a-z0-9_]{8}"  # what tempfile puts behind a prefix
_AT_FDCWD: Final = -100  # fcntl.h
_RENAME_EXCHANGE: Final = 2  # linux/fs.h
_CANNOT_EXCHANGE: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.EXDEV, errno.EOPNOTSUPP})

_REMEDIES: Final = {
    errno.ENOSPC: "make room there, then run the same command again",
    errno.EDQUOT: "make room there, then run the same command again",
    errno.EACCES: "make it accessible to this user, or name another path",
    errno.EPERM: "make it accessible to this user, or name another path",
    errno.EROFS: "make it writable, or name another path",
    errno.ENAMETOOLONG: "name a shorter path",
    errno.EMFILE: "raise the limit of open files (`ulimit -n`)",
    errno.EIO: "the disk fails, or its connection: see the system's log",
    **dict.fromkeys((errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENOENT, errno.ELOOP), "name another path"),
}

Rescue = Callable[[Path], None]


def storage_error(error: OSError, what: str = "", path: Path | None = None) -> StorageError:
    """Return the error that says which file could not be read or written, why, and what to do."""
    named = error.filename if path is None else path
    place = "" if named is None else os.fsdecode(named) if isinstance(named, str | bytes) else str(named)
    place = _TEMPORARY.sub(r"\1", place)  # what it would have become
    reason = error.strerror or str(error)
    remedy = _REMEDIES.get(error.errno or 0, "")
    said = ": ".join(part for part in (place, what, reason) if part)
    return StorageError(f"{said}; {remedy}" if remedy else said)


@contextmanager
def storage_errors(what: str = "", path: Path | None = None) -> Iterator[None]:
    """Raise StorageError for an OSError of the block; `what` says what cannot be done, `path` to which file."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise storage_error(error, what, path) from error


@contextmanager
def termination_interrupts() -> Iterator[None]:
    """Have SIGTERM end the block as Ctrl-C does, so that what it has begun is kept or cleaned up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, and so that it outlasts a power cut; its mode stays what it was, or is 0644.

    A link stays one: what it leads to is written.
    """
    path = path.resolve() if path.is_symlink() else path
    path.parent.mkdir(parents=True, exist_ok=True)
    collect(path)
    with temporary(path, folder=False) as beside:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o644)
        beside.replace(path)
    _sync(path.parent)


def _sync(folder: Path) -> None:
    """Have a folder's entries outlast a power cut, where the system can."""
    with contextlib.suppress(OSError):  # the content is there; some file systems cannot
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def temporary(path: Path, *, folder: bool, rescue: Rescue = lambda _left: None) -> Iterator[Path]:
    """Yield a new temporary file or folder beside `path`, held by this process; it is removed at the end.

    `rescue` is called with it first, and where it fails nothing is removed.
    """
    made, handle = _made(path.parent, f".{path.name}{_MARK}", folder=folder)
    try:
        yield made
    finally:
        try:
            rescue(made)
            _remove(made)
        finally:
            if handle is not None:
                os.close(handle)


def collect(path: Path, rescue: Rescue = lambda _left: None) -> None:
    """Remove what killed processes left beside `path` while they wrote it; each is handed to `rescue` first."""
    _collect(path.parent, f".{path.name}{_MARK}", rescue)


@cache
def scratch() -> Path:
    """Return the folder of this process's temporary files; it goes with the process, or with a later one."""
    parent = Path(tempfile.gettempdir())
    _collect(parent, _SCRATCH, lambda _left: None)
    made, _handle = _made(parent, _SCRATCH, folder=True)  # held as long as the process lives
    owner = os.getpid()
    atexit.register(lambda: _remove(made) if os.getpid() == owner else None)  # not a fork of it
    return made


def exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step; returns False where the system or the file system cannot. Raises OSError."""
    if sys.platform != "linux":
        return False
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is None:
        return False
    if not function(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE):
        return True
    if (number := ctypes.get_errno()) in _CANNOT_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number), str(other))


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Run the block while no other process is in such a block for `folder`, where the file system has locks."""
    handle = os.open(folder, os.O_RDONLY) if sys.platform != "win32" else None
    try:
        if handle is not None:
            _locked(handle, wait=True)
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _made(parent: Path, prefix: str, *, folder: bool) -> tuple[Path, int | None]:
    """Make a temporary file or folder, and hold it: the handle is None where that cannot be."""
    while True:
        if folder:
            made = Path(tempfile.mkdtemp(dir=parent, prefix=prefix))
        else:
            handle, name = tempfile.mkstemp(dir=parent, prefix=prefix)
            os.close(handle)
            made = Path(name)
        if sys.platform == "win32":  # which can neither lock nor rename what is open
            return made, None
        try:
            handle = os.open(made, os.O_RDONLY)
        except FileNotFoundError:  # another process took it for a leftover
            continue
        except OSError:
            _remove(made)
            raise
        _locked(handle, wait=True)
        if made.exists():
            return made, handle
        os.close(handle)


def _locked(handle: int, *, wait: bool) -> bool:
    """Lock an open file or folder; returns whether it could be."""
    if sys.platform == "win32":
        return False
    import fcntl  # noqa: PLC0415 - Windows has none

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def _collect(parent: Path, prefix: str, rescue: Rescue) -> None:
    if sys.platform == "win32":
        return
    name = re.compile(re.escape(prefix) + _RANDOM)
    with contextlib.suppress(OSError):
        for entry in sorted(parent.iterdir()):
            if name.fullmatch(entry.name) and entry.lstat().st_uid == os.getuid() and not entry.is_symlink():
                _collect_one(entry, rescue)


def _collect_one(left: Path, rescue: Rescue) -> None:
    with contextlib.suppress(OSError):
        handle = os.open(left, os.O_RDONLY)
        try:
            if _locked(handle, wait=False):
                rescue(left)
                _remove(left)
        finally:
            os.close(handle)


def _remove(path: Path) -> None:
    """Remove a file or folder; what cannot be removed now is collected later."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
