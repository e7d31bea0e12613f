"""Locks and caches from outside: refused with an error of ours, or no more than literals in what is baked."""

from __future__ import annotations

import ast
import json
import sqlite3
import time

import pytest

from builders import H100
from generated import assigned
from hostile_data import MODULE, TABLE, TEXTS, UNPRINTABLE, brief, constants
from locks import sealed
from pretuned.build.core import build_requirements
from pretuned.compile.result import Binary, Resources
from pretuned.config import read_settings
from pretuned.frontends.registry import load_project
from pretuned.record import cache as cachefile


@pytest.mark.parametrize("text", TEXTS, ids=brief)
def test_texts_of_a_lock_are_literals_in_the_package(area, text):
    document = area.lock()
    device = document["devices"].pop(H100.name)
    document["devices"][text] = device | {"name": text}
    for row in document["rows"]:
        row.update(device=text, driver=text, date=text, disturbed=text, compiler=text)
        row["choices"][0]["cubin"] = text
    area.put(document)
    status, said = area.run("bake")
    assert status == 0, said
    assert text in constants(area.generated())
    assert not list(area.root.rglob("pwned*"))
    assert json.loads((area.project / MODULE / "pretuned.json").read_text())["devices"][0]["name"] == text
    assert area.run("show", "pretuned.lock.json")[0] == 0
    assert area.run("inspect", MODULE)[0] == 0


@pytest.mark.parametrize("text", UNPRINTABLE)
@pytest.mark.parametrize("command", ["bake", "show", "check"])
def test_texts_that_could_forge_lines_are_refused_by_every_reader(area, text, command):
    document = area.lock()
    document["rows"][0]["driver"] = text
    area.put(document)
    arguments = (command, "pretuned.lock.json") if command == "show" else (command,)
    said = area.refused(*arguments)
    assert "pretuned writes printable characters only" in said
    assert all(char.isprintable() or char == "\n" for char in said)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda row: row.update(kernel="__class__"),
        lambda row: row.update(specialisation={"__class__": "float32"}),
        lambda row: row.update(specialisation={"T": '"; import os'}),
        lambda row: row.update(problem={"__init__": 1024}),
        lambda row: row.update(problem={"n": 10**4000}),
        lambda row: row.update(problem={"n": -1}),
        lambda row: row["choices"][0].update(configuration={"__class__": 1, "block": 256, "vec": 1}),
        lambda row: row["choices"][0].update(configuration={"block": 10**1000, "vec": 1}),
        lambda row: row["choices"][0].update(configuration={"block": '256"; import os', "vec": 1}),
        lambda row: row["choices"][0].update(configuration={"block": True, "vec": 1}),
        lambda row: row["choices"][0].update(implementation="__globals__"),
        lambda row: row["choices"][0].update(implementation="../../main"),
        lambda row: row["choices"].append({**row["choices"][0], "candidate": "0" * 32}),
    ],
)
def test_of_rows_of_what_the_specs_do_not_have_only_the_default_is_baked(area, spoil):
    document = area.lock()
    for row in document["rows"]:
        spoil(row)
    keys = [json.dumps([row[key] for key in ("kernel", "specialisation", "problem")]) for row in document["rows"]]
    document["rows"] = list(dict(zip(keys, document["rows"], strict=True)).values())
    area.put(document)
    status, said = area.run("bake")
    assert status == 0, said
    assert "stale" in said or "not up to date" in said
    table = ast.literal_eval(assigned(area.generated(), "TABLE"))
    found = [row for rows in table["scale"].values() for row in rows]
    assert all(choice[:2] == ("main", {"block": 256, "vec": 1}) for row in found for choice in row[2])
    (area.project / "pyproject.toml").write_text(TABLE + 'mode = "locked"\n')
    assert "is not fresh" in area.refused("bake")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda rule: rule.update(kernel="__class__"),
        lambda rule: rule.update(specialisation={"T": '"; import os'}),
        lambda rule: rule.update(space="", driver='"); import os', date="{0.__class__}"),
        lambda rule: rule["choices"][0].update(configuration={"block": '256"; import os', "vec": 1}),
        lambda rule: rule["choices"][0].update(implementation="../../main"),
        lambda rule: rule["choices"].reverse(),
        lambda rule: rule["choices"].pop(),
    ],
)
def test_selections_of_what_the_specs_do_not_have_are_no_more_than_arithmetic_over_dims(area, spoil):
    document = area.lock(selected=True)
    spoil(document["selections"][0])
    area.put(document)
    status, said = area.run("bake")
    assert status == 0, said
    assert "stale" in said or "not up to date" in said
    area.generated()
    (area.project / "pyproject.toml").write_text(TABLE + 'mode = "locked"\n')
    assert "is not fresh" in area.refused("bake")


@pytest.mark.parametrize(
    "term", ["__import__('os')", "n ** n", "n.real", "(lambda: 1)()", "[0][n]", "min(n)", "1 // n"]
)
def test_costs_that_are_more_than_arithmetic_are_refused(area, term):
    document = area.lock(selected=True)
    document["selections"][1]["choices"][1]["cost"] = {term: 1}
    area.put(document)
    assert "pretuned.lock.json: selections[1].choices[1]: " in area.refused("bake")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda lock: lock.update(devices=[]),
        lambda lock: lock.update(rows={"__class__": 1}),
        lambda lock: lock.update(format="1"),
        lambda lock: lock.update(format=10**4000),
        lambda lock: lock["devices"][H100.name].update(compute_capability="90 --options-file=/etc/passwd"),
        lambda lock: lock["devices"][H100.name].update(name="another"),
        lambda lock: lock["rows"][0].update(device="nobody"),
        lambda lock: lock["rows"][0]["choices"][0].update(time_us="1e400"),
        lambda lock: lock["rows"][0]["choices"][0].update(time_us=1e400),
        lambda lock: lock["rows"][0]["choices"][0].update(time_us=10**400),
        lambda lock: lock["rows"][0]["choices"][0].update(ratio=[1]),
        lambda lock: lock["rows"][0]["choices"][0].update(ratio=[1, [1]]),
    ],
)
def test_a_lock_with_fields_of_another_kind_is_refused(area, spoil):
    document = area.lock()
    spoil(document)
    area.put(document)
    assert "pretuned.lock.json" in area.refused("bake")


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"a":' * 100_000, '{"format": ' + "9" * 1_000_000 + "}", '"\ud800', "", "null", "\0" * 1000, "]"],
    ids=["brackets", "objects", "digits", "surrogate", "empty", "null", "zeros", "bracket"],
)
def test_a_lock_that_is_none(area, text):
    area.put(text)
    assert "pretuned.lock.json" in area.refused("bake")


@pytest.mark.parametrize("kind", ["blanks", "text", "rows"])
def test_a_lock_of_20_megabytes(area, kind, record_property):
    document = area.lock()
    size = 20 << 20
    match kind:
        case "blanks":
            area.put(json.dumps(sealed(document)) + " " * size)
        case "text":
            document["rows"][0]["driver"] = "x" * size
            area.put(document)
        case "rows":
            row = json.dumps(sealed(document)["rows"][0])
            many = ",".join([row] * (size // len(row)))
            area.put(json.dumps(sealed({**document, "rows": []})).replace('"rows": []', f'"rows": [{many}]'))
    assert (area.project / "pretuned.lock.json").stat().st_size >= size * 0.99
    begin = time.monotonic()
    status, said = area.run("bake")
    record_property("figure", f"a lock of 20 MB, {kind}: baked in {time.monotonic() - begin:.1f} s")
    assert status == 0, said
    area.generated()


def test_a_lock_names_no_compiler_to_install(tmp_path, area):
    """What a lock calls NVRTC's version gets into the requirements of a build."""

    (area.project / "pyproject.toml").write_text(TABLE.replace("cubins = false\n", ""))
    for compiler in (
        *TEXTS[:-1],
        "13",
        "13.0.88 @ https://host/x.whl",
        "13.0; os_name == 'nt'",
        "\u0661\u0663.\u0660",
        "9" * 5000,
    ):
        document = area.lock()
        for row in document["rows"]:
            row["compiler"] = compiler
        area.put(document)
        for requirement in build_requirements(load_project(area.project), read_settings()):
            name, _, version = requirement.replace(">=", "==").partition("==")
            assert name.replace("-", "").replace("[nvrtc,cudart]", "").isalnum()
            assert all(char in "0123456789.*<,=" for char in version)


@pytest.mark.parametrize(
    "value",
    [
        "no JSON",
        "[" * 100_000,
        "null",
        "[]",
        '{"image": "AA=="}',
        {"compiler": ["13.0.88"]},
        {"compiler": 13},
        {"digest": 7},
        {"resources": {"scale": {"registers": '1);__import__("os")', "spill_bytes": 0, "shared_bytes": 0}}},
        {"resources": {"scale": {"registers": 1}}},
        {"ptx": 7},
        {"resources": [["scale", 1]]},
        {"image": "!"},
        {"image": None},
        {"flags": 7},
        {"unknown": 1},
    ],
    ids=brief,
)
def test_a_cache_entry_that_is_spoilt_counts_as_none(tmp_path, value):

    resources = {"scale": Resources(registers=1, spill_bytes=0, shared_bytes=0)}
    image = b"image"
    digest = "6105d6cc76af400325e94d588ce511be5bfdbb73b437dc51eca43917d7a43e3d"
    binary = Binary(
        module="m", architecture="sm_90", image=image, digest=digest, flags=(), compiler="13", resources=resources
    )
    with cachefile.Cache(tmp_path) as cache:
        cache.put_binary("key", binary)
        assert cache.binary("key") == binary
    with sqlite3.connect(tmp_path / cachefile.FILE) as connection:
        ((name, text),) = connection.execute("SELECT key, value FROM entries").fetchall()
        data = json.loads(text.partition(" ")[2])
        new = value if isinstance(value, str) else json.dumps(data | value)
        connection.execute("UPDATE entries SET value = ?", (cachefile.sealed(name, new),))
    connection.close()
    with cachefile.Cache(tmp_path) as cache:
        assert cache.binary("key") is None


def test_texts_of_a_cache_are_literals_in_the_package(area, tmp_path):
    """Whoever can write the cache can ship an image, which is marked; never code that the build or an import runs."""
    (area.project / "pyproject.toml").write_text(TABLE.replace("cubins = false", 'architectures = ["sm_90"]'))
    assert area.run("bake")[0] == 0
    with sqlite3.connect(tmp_path / "cache" / cachefile.FILE) as connection:
        for key, text in connection.execute("SELECT key, value FROM entries WHERE kind = 'binary'").fetchall():
            value = json.loads(text.partition(" ")[2])
            value["architecture"] = "../../pwned"
            value["resources"] = {TEXTS[0]: {"registers": 1, "spill_bytes": 0, "shared_bytes": 0}}
            connection.execute(
                "UPDATE entries SET value = ? WHERE key = ?", (cachefile.sealed(key, json.dumps(value)), key)
            )
    connection.close()
    assert area.run("bake")[0] == 0
    assert TEXTS[0] in constants(area.generated())
    assert not list(tmp_path.rglob("pwned*"))
