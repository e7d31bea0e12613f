import errno
from pathlib import Path

import pytest

from pretuned import files
from pretuned.build.place import place, recover
from pretuned.errors import BakeError, StorageError

PACKAGE = {"__init__.py": b"A = 1\n", "_runtime/__init__.py": b"", "kernels/a.cubin": b"\x7fELF"}


def content(folder):
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_package_replaces_the_one_before_it_whole(tmp_path):
    folder = tmp_path / "src" / "pkg" / "tuned"
    place({**PACKAGE, "kernels/old.cubin": b"old"}, folder)
    place(PACKAGE, folder)
    assert content(folder) == PACKAGE
    assert [entry.name for entry in folder.parent.iterdir()] == ["tuned"], "nothing is left beside it"


def test_left_over_bytecode_is_no_obstacle(tmp_path):
    (tmp_path / "tuned" / "__pycache__").mkdir(parents=True)
    place(PACKAGE, tmp_path / "tuned")
    assert content(tmp_path / "tuned") == PACKAGE


def test_files_that_are_not_ours_are_never_replaced(tmp_path):
    folder = tmp_path / "pkg"
    folder.mkdir()
    (folder / "__init__.py").write_text("mine = True\n")
    with pytest.raises(BakeError) as caught:
        place(PACKAGE, folder)
    assert str(caught.value) == (f"{folder} holds files that pretuned did not generate; name another path as `module`")
    assert content(folder) == {"__init__.py": b"mine = True\n"}


def test_a_file_in_the_way(tmp_path):
    file = tmp_path / "tuned"
    file.touch()
    with pytest.raises(BakeError) as caught:
        place(PACKAGE, file)
    assert str(caught.value) == f"{file} is a file, and the generated package a folder; name another path as `module`"


def test_a_write_that_fails_leaves_the_old_package(tmp_path):
    folder = tmp_path / "tuned"
    place(PACKAGE, folder)
    with pytest.raises(StorageError) as caught:
        place({**PACKAGE, "__init__.py/impossible": b""}, folder)
    assert str(caught.value) == f"{folder}: the generated package cannot be written: File exists; name another path"
    assert content(folder) == PACKAGE
    assert [entry.name for entry in tmp_path.iterdir()] == ["tuned"]


@pytest.fixture(params=["exchanged", "moved aside"])
def manner(request, monkeypatch):
    if request.param == "moved aside":
        monkeypatch.setattr(files, "exchange", lambda _one, _other: False)
    return request.param


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.usefixtures("manner")
def test_an_error_between_the_two_packages_costs_neither(tmp_path, monkeypatch, error):
    folder, old = tmp_path / "tuned", {**PACKAGE, "__init__.py": b"A = 0\n"}
    place(old, folder)
    seen = []

    def fail(self, target, rename=Path.rename):
        seen.append(self.name)
        if self.name == "new":
            raise error
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    if files.exchange(folder, folder):
        place(PACKAGE, folder)
        assert (seen, content(folder)) == ([], PACKAGE), "no moment without a package"
    else:
        with pytest.raises((StorageError, KeyboardInterrupt)):
            place(PACKAGE, folder)
        assert (seen, content(folder)) == (["tuned", "new", "old"], old)
    assert [entry.name for entry in tmp_path.iterdir()] == ["tuned"]


def test_a_package_that_a_killed_bake_had_moved_aside_comes_back(tmp_path):
    folder = tmp_path / "tuned"
    place(PACKAGE, folder)
    left = tmp_path / ".tuned.writing-abcd1234"
    left.mkdir()
    folder.rename(left / "old")
    recover(folder)
    assert content(folder) == PACKAGE
    assert [entry.name for entry in tmp_path.iterdir()] == ["tuned"]


def test_a_folder_of_an_images_lower_layer_is_replaced_too(tmp_path, monkeypatch):
    """Its file system moves no folder: `rename` fails with EXDEV."""
    folder = tmp_path / "tuned"
    place({**PACKAGE, "kernels/old.cubin": b"old"}, folder)
    monkeypatch.setattr(files, "exchange", lambda _one, _other: False)

    def fail(self, target, rename=Path.rename):
        if self == folder:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    place(PACKAGE, folder)
    assert content(folder) == PACKAGE
