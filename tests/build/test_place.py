import pytest

from pretuned.build.place import place
from pretuned.errors import BakeError

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
    with pytest.raises(FileExistsError):
        place({**PACKAGE, "__init__.py/impossible": b""}, folder)
    assert content(folder) == PACKAGE
    assert [entry.name for entry in tmp_path.iterdir()] == ["tuned"]
