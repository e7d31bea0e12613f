"""A project with the kernel `scale` and a lock, and the command line in it."""

from __future__ import annotations

import pytest

from builders import H100, rows
from pretuned.cli import main
from pretuned.record import lock as lockfile
from pretuned.record.lock import Lock
from specs import SCALE_TEMPLATE, loaded

TABLE = '[tool.hatch.build.hooks.pretuned]\nmodule = "src/demo/tuned"\ncubins = false\n'


class Home:
    """The project in `root`; `run` returns a command's status and what it printed to each stream."""

    def __init__(self, root, monkeypatch, capsys):
        self.root, self.capsys = root, capsys
        (root / "kernels").mkdir()
        (root / "pyproject.toml").write_text(TABLE)
        self.template = "#include <cuda_fp16.h>\n" + SCALE_TEMPLATE
        self.spec = loaded(root / "kernels", template=self.template)
        self.lock = root / "pretuned.lock.json"
        monkeypatch.setenv("PRETUNED_CACHE_DIR", str(root / "cache"))
        monkeypatch.chdir(root)

    def run(self, *arguments):
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        captured = self.capsys.readouterr()
        return end.value.code, captured.out, captured.err

    def rows(self, **given):
        return rows(self.spec, **given)

    def write(self, entries, *devices, path=None, skipped=()):
        """Write a lock of `devices` (an H100), the project's own without `path`, and return its path."""
        lock = Lock().updated({device.name: device for device in devices or (H100,)}, entries, skipped)
        lockfile.write(path or self.lock, lock)
        return path or self.lock

    def read(self):
        return lockfile.read(self.lock)
