"""`pretuned.json`: what it says of a package, and that it says it in the same bytes."""

from __future__ import annotations

import dataclasses
import hashlib
import json

import pytest

from builders import H100, binary_of, rows, selections
from pretuned.bake.package import files
from pretuned.bake.plan import plan
from pretuned.build import metadata
from pretuned.errors import BakeError
from pretuned.record import lock as lockfile
from pretuned.record.lock import Lock
from specs import loaded

H200 = dataclasses.replace(H100, name="NVIDIA H200", memory_gbps=4814)


@pytest.fixture
def spec(tmp_path):
    return loaded(tmp_path)


def described(spec, found, **options):
    """Return the metadata, its text and the files of the package with the rows `found`."""
    planned = plan({spec.name: spec}, found, {H100.name: H100, H200.name: H200}, **options)
    binaries = {(module.key, architecture): binary_of(module, architecture) for module, architecture in planned.jobs}
    content = files(planned, binaries, version="1.2")
    told = metadata.describe(planned, binaries, content, "1.2")
    return told, metadata.dumps(told), content


def test_it_tells_devices_rows_and_versions(spec):
    found = rows(spec)
    noisy = dataclasses.replace(found[0], noise="another process", date="2026-11-30")
    lost = dataclasses.replace(found[1], choices=(found[1].default,))
    told, _, _ = described(spec, [noisy, lost, *found[2:], *rows(spec, device=H200.name)])
    assert (told.pretuned, told.compilers) == ("1.2", ("13.0.88",))
    assert told.devices == (H100, H200)
    first, second = told.rows
    assert (first.kernel, first.device, first.rows, first.faster) == ("scale", H100.name, 4, 3)
    assert (first.recompiled, first.disturbed, first.first, first.last) == (4, 1, "2026-11-21", "2026-11-30")
    assert (second.device, second.rows, second.faster, second.disturbed) == (H200.name, 4, 4, 0)


def test_rows_that_ship_what_was_measured_are_not_recompiled(spec):
    planned = plan({spec.name: spec}, rows(spec), {H100.name: H100})
    digests = {module.key: binary_of(module, architecture).digest for module, architecture in planned.jobs}
    (kernel,) = planned.kernels

    def measured(row):
        keys = [kernel.source(row.specialisation, choice.configuration).key for choice in row.choices]
        choices = [dataclasses.replace(c, cubin=digests[key]) for c, key in zip(row.choices, keys, strict=True)]
        return dataclasses.replace(row, choices=tuple(choices))

    (share,) = described(spec, [measured(row) for row in rows(spec)])[0].rows
    assert share.recompiled == 0


def test_files_and_rows_can_be_held_against_their_digests(spec, tmp_path):
    told, text, content = described(spec, rows(spec))
    assert {name: file.sha256 for name, file in told.files.items()} == {
        name: hashlib.sha256(data).hexdigest() for name, data in content.items()
    }
    lockfile.write(tmp_path / "lock.json", Lock().updated({H100.name: H100}, rows(spec)))
    lines = [line.rstrip(",") for line in (tmp_path / "lock.json").read_text().splitlines() if '"choices"' in line]
    digest = hashlib.sha256("".join(f"{line}\n" for line in sorted(lines)).encode()).hexdigest()
    assert told.rows[0].digest == digest, "of the lines as the lock has them"
    assert metadata.loads(text) == told


def test_it_changes_with_what_ships_and_with_nothing_else(spec, tmp_path):
    _, text, _ = described(spec, rows(spec))
    assert described(spec, list(reversed(rows(spec))))[1] == text
    (tmp_path / "other").mkdir()
    changed, _, _ = described(loaded(tmp_path / "other", ("[128, 256]", "[64, 256]"), ("a * x.", "b * x.")), [])
    untuned, _, _ = described(spec, [])
    assert changed.kernels == untuned.kernels, "of what ships, not of what might"
    assert described(spec, rows(spec))[0].kernels != untuned.kernels


def test_a_line_an_entry(spec):
    _, text, content = described(spec, rows(spec), selections=selections(spec))
    document = json.loads(text)
    entries = [len(document[key]) for key in ("devices", "kernels", "rows", "selections", "files")]
    assert text.decode().count("\n") == sum(entries) + len(document) + len(entries) + 2
    assert metadata.FILE not in content


def test_without_binaries_and_rows(spec):
    told, text, _ = described(spec, [], cubins=False)
    assert (told.compilers, told.devices, told.rows) == ((), (), ())
    assert metadata.loads(text) == told


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda data: data.pop("files"), "files: Field required"),
        (lambda data: data["files"].update(x={"size_bytes": "1", "sha256": ""}), "files.x.size_bytes"),
        (lambda data: data["rows"].append(1), "rows.1"),
        (lambda data: data.update(devices={}), "devices"),
        (lambda data: data.update(format=True), "has format True"),
    ],
)
def test_other_data_is_refused_with_its_place(spec, edit, message):
    document = json.loads(described(spec, rows(spec))[1])
    edit(document)
    with pytest.raises(BakeError, match=message):
        metadata.loads(json.dumps(document).encode())


def test_selections_stand_there_with_what_they_were_certified_to_lose(spec, tmp_path):
    first, second = selections(spec)
    bare = dataclasses.replace(second, certificate=None, space="")
    told, text, _ = described(spec, rows(spec), selections=[first, bare])
    one, other = told.selections
    assert (one.kernel, one.device, one.specialisation) == ("scale", H100.name, {"T": "float16"})
    assert (one.configurations, one.recompiled, one.compiler) == (2, 2, "13.0.88")
    assert metadata.certificate_of(one) == first.certificate
    assert (other.certificate, metadata.certificate_of(other)) == (None, None)
    assert metadata.loads(text) == told
    lockfile.write(tmp_path / "lock.json", Lock().updated({H100.name: H100}, (), (), [first]))
    (line,) = (line for line in (tmp_path / "lock.json").read_text().splitlines() if '"choices"' in line)
    assert one.digest == hashlib.sha256(f"{line}\n".encode()).hexdigest()


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda losses: losses.pop("mean"), "lacks 'mean'"),
        (lambda losses: losses.update(mean=-1), "'mean' is -1, not 0 or more"),
        (lambda losses: losses.update(worst_at=[]), "'worst_at' is [], not an object"),
        (lambda losses: losses.update(worst_at={"n": "x"}), "'n' of 'worst_at' is 'x', not a size"),
        (
            lambda losses: losses.update(problems=True),
            f"'problems' is True, not a whole number from 1 to {2**62}",
        ),
    ],
)
def test_a_certificate_that_nobody_wrote_so_is_refused(spec, edit, message):
    _, text, _ = described(spec, rows(spec), selections=selections(spec))
    document = json.loads(text)
    edit(document["selections"][1]["certificate"]["inside"])
    with pytest.raises(BakeError) as error:
        metadata.loads(json.dumps(document).encode())
    assert str(error.value) == f"pretuned.json: selections[1].certificate.inside: {message}"
