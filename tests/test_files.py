"""Files and folders are whole or not there, and what killed processes left is collected."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import pretuned
from pretuned.errors import StorageError
from pretuned.files import collect, storage_errors, temporary, write_whole

HOLDING = """
import sys
from pathlib import Path
from pretuned.files import temporary
with temporary(Path(sys.argv[1]), folder=sys.argv[2] == "folder") as beside:
    print(beside, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(params=["file", "folder"])
def writer(request, tmp_path):
    """A process that writes `tmp_path / "it"`, and the temporary that it has."""
    here = {**os.environ, "PYTHONPATH": str(Path(pretuned.__file__).parents[1])}
    command = [sys.executable, "-c", HOLDING, str(tmp_path / "it"), request.param]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=here) as process:
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_what_a_living_process_writes_is_left_alone(writer, tmp_path):
    _, beside = writer
    collect(tmp_path / "it")
    assert beside.exists()


def test_what_a_killed_process_left_is_collected(writer, tmp_path):
    process, beside = writer
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert beside.exists()
    (tmp_path / ".it.writing-mine").touch()  # no name of tempfile
    (tmp_path / ".other.writing-abcdefgh").touch()
    collect(tmp_path / "it")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".it.writing-mine", ".other.writing-abcdefgh"]


def test_what_cannot_be_rescued_is_not_removed(tmp_path):
    def fail(_left):
        raise OSError(errno.EIO, "no")

    with pytest.raises(OSError, match="no"), temporary(tmp_path / "it", folder=True, rescue=fail) as beside:
        pass
    collect(tmp_path / "it", rescue=fail)
    assert beside.is_dir()


def test_a_file_keeps_its_mode_and_nothing_stays_beside_it(tmp_path):
    file = tmp_path / "it"
    write_whole(file, b"1")
    assert file.stat().st_mode & 0o777 == 0o644
    file.chmod(0o600)
    write_whole(file, b"2")
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"2", 0o600)
    assert list(tmp_path.iterdir()) == [file]


def test_what_a_link_leads_to_is_written(tmp_path):
    (tmp_path / "shared").mkdir()
    file, link = tmp_path / "shared/it", tmp_path / "link"
    file.write_bytes(b"1")
    link.symlink_to("shared/it")
    write_whole(link, b"2")
    assert link.is_symlink()
    assert file.read_bytes() == b"2"


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "/a/b: No space left on device; make room there, then run the same command again"),
        (errno.EACCES, "/a/b: Permission denied; make it accessible to this user, or name another path"),
        (errno.EISDIR, "/a/b: Is a directory; name another path"),
        (errno.ECHILD, "/a/b: No child processes"),
    ],
)
def test_an_error_of_the_system_names_the_file_and_what_to_do(number, said):
    with pytest.raises(StorageError) as caught, storage_errors():
        raise OSError(number, os.strerror(number), "/a/b")
    assert str(caught.value) == said


def test_an_error_of_writing_names_the_file_that_was_asked_for(tmp_path):
    (tmp_path / "it").mkdir()
    with pytest.raises(StorageError) as caught, storage_errors():
        write_whole(tmp_path / "it", b"1")
    assert str(caught.value) == f"{tmp_path / 'it'}: Is a directory; name another path"
