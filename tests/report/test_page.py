"""The page of a report says what the lock says: every number is held against the lock's own lines."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import replace

import pytest

import pretuned
from builders import H100, losses, selections
from documents import ROOT
from pages import Page
from pretuned.record import lock as lockfile
from pretuned.record.courses import Course, Curve, HeldOut
from pretuned.record.lock import Lock
from pretuned.record.rows import Choice
from pretuned.record.selections import Certificate
from pretuned.report.figures.changes import LockVersion
from pretuned.report.markdown import markdown
from pretuned.report.page.html import page
from pretuned.report.project import GatheredProject, report_of
from pretuned.spec.space import Configuration, Problem
from project_home import Home

MOST_BYTES = 2_000_000
HOSTILE = "<script>alert(1)</script>\" onload='x' &lt; {{ 7 * 7 }} ](http://x) | `a`"


@pytest.fixture(scope="module")
def bundled(tmp_path_factory):
    """The bundled lock: its lines as JSON by number, its page as text and as read, and the report."""
    file = tmp_path_factory.mktemp("report") / "report.html"
    found = pretuned.report(ROOT, out=file)
    lines = {
        number: json.loads(line.removesuffix(","))
        for number, line in enumerate((ROOT / "pretuned.lock.json").read_text().splitlines(), 1)
        if line.startswith('{"kernel"')
    }
    return lines, file.read_text(), Page(file.read_text()), found


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def test_every_row_of_the_lock_stands_in_the_page_with_its_numbers(bundled):
    lines, _, read, _ = bundled
    shown = {int(cells["line"]): cells for _, cells in read.of_table(class_="rows sortable")}
    rows = {number: line for number, line in lines.items() if "problem" in line}
    assert shown.keys() == rows.keys()
    for number, line in rows.items():
        winner, default = line["choices"][0], line["choices"][-1]
        cells = shown[number]
        assert float(cells["winner_us"]) == winner["time_us"]
        assert float(cells["default_us"]) == default["time_us"]
        assert cells["speedup"] == f"{default['time_us'] / winner['time_us']:.4f}x"
        interval = [float(end) for end in cells["ratio"].split(" to ")] if cells["ratio"] != "-" else [1.0, 1.0]
        assert interval == winner["ratio"]


SIZES = {"float32": 4, "float16": 2, "bfloat16": 2}
MOVED = {
    "row_softmax": lambda d, size: 2 * d["rows"] * d["cols"] * size,
    "sgemm": lambda d, _: 4 * (d["m"] * d["n"] + d["m"] * d["k"] + d["k"] * d["n"]),
    "hgemm": lambda d, size: size * (d["m"] * d["n"] + d["m"] * d["k"] + d["k"] * d["n"]),
    "gemv": lambda d, size: size * (d["rows"] * d["cols"] + d["rows"] + d["cols"]),
}


def test_the_share_of_the_bandwidth_is_that_of_the_bytes_that_a_call_moves(bundled):
    lines, _, read, report = bundled
    gbps = {one.device.name: one.device.memory_gbps for one in report.devices}
    seen = Counter()
    for _, cells in read.of_table(class_="rows sortable"):
        line = lines[int(cells["line"])]
        if line["kernel"] not in MOVED:
            continue
        moved = MOVED[line["kernel"]](line["problem"], SIZES[line["specialisation"].get("T", "float32")])
        share = moved / (line["choices"][0]["time_us"] * 1e-6) / (gbps[line["device"]] * 1e9)
        assert cells["share"] == f"{share:.2%}"
        seen[line["kernel"]] += 1
    assert seen.keys() == MOVED.keys()


def test_every_certificate_stands_in_the_page(bundled):
    lines, _, read, _ = bundled
    wanted = {}
    for number, line in lines.items():
        if "reach" in line:
            certificate = line.get("certificate", {})
            parts = {where: certificate[where] for where in ("inside", "outside") if where in certificate}
            wanted |= {(number, where): part for where, part in parts.items()} or {(number, "nowhere"): None}
    shown = {(int(cells["line"]), found["data-where"]): cells for found, cells in read.of_table(id="losses")}
    assert shown.keys() == wanted.keys()
    for key, part in wanted.items():
        for name in ("mean", "p95", "worst", "slower") if part else ():
            assert float(shown[key][name].rstrip("%")) == pytest.approx(100 * part[name], abs=1e-9)
        assert shown[key]["problems"] == (str(part["problems"]) if part else "-")


def test_the_summary_adds_up(bundled):
    lines, _, read, _ = bundled
    shown = {found["data-device"]: cells for found, cells in read.of_table(id="summary-table")}
    assert shown.keys() == {line["device"] for line in lines.values()}
    for device, cells in shown.items():
        own = [line for line in lines.values() if line["device"] == device]
        rows = [line["choices"] for line in own if "problem" in line]
        certificates = [line["certificate"]["inside"]["mean"] for line in own if "certificate" in line]
        assert int(cells["rows"]) == len(rows)
        assert int(cells["faster"]) == sum(len(choices) > 1 for choices in rows)
        speedup = geomean([choices[-1]["time_us"] / choices[0]["time_us"] for choices in rows])
        assert float(cells["speedup"]) == pytest.approx(speedup, rel=1e-9)
        assert int(cells["noisy"]) == sum("disturbed" in line for line in own)
        assert int(cells["certified"]) == len(certificates)
        assert float(cells["worst"]) == max(certificates)


def test_each_kernel_stands_in_short(bundled):
    lines, _, read, _ = bundled
    shown = {(f["data-kernel"], f["data-device"]): cells for f, cells in read.of_table(id="overview")}
    assert shown.keys() == {(line["kernel"], line["device"]) for line in lines.values() if "problem" in line}
    for key, cells in shown.items():
        own = [line for line in lines.values() if (line["kernel"], line["device"]) == key]
        rows = [line["choices"] for line in own if "problem" in line]
        means = [line["certificate"]["inside"]["mean"] for line in own if "certificate" in line]
        speedup = geomean([choices[-1]["time_us"] / choices[0]["time_us"] for choices in rows])
        assert int(cells["rows"]) == len(rows)
        assert float(cells["speedup"]) == pytest.approx(speedup, rel=1e-9)
        assert cells["worst"] == (f"{max(means):.2%}" if means else "-")


def test_devices_stand_beside_each_other_where_both_have_rows(bundled):
    lines, _, read, _ = bundled
    groups = {}
    for number, line in lines.items():
        if "problem" in line:
            key = line["kernel"], *(json.dumps(line[name]) for name in ("specialisation", "problem"))
            groups.setdefault(key, []).append(number)
    wanted = {number for numbers in groups.values() if len(numbers) > 1 for number in numbers}
    cells = [cell for table, _, row in read.rows if table.get("class") == "pairs sortable" for cell in row]
    shown = {int(found["data-line"]): float(text) for found, text in cells if "data-line" in found}
    assert shown == {number: lines[number]["choices"][0]["time_us"] for number in wanted}


def test_a_winner_that_devices_agree_on_is_named_once(bundled):
    lines, _, read, _ = bundled
    agreed = 0
    for table, _, row in read.rows:
        if table.get("class") == "pairs sortable":
            numbers = [int(found["data-line"]) for found, _ in row if "data-line" in found]
            winners = [
                json.dumps([lines[at]["choices"][0][key] for key in ("implementation", "configuration")])
                for at in numbers
            ]
            said = [text for _, text in row[2::2]]
            assert ["the same" in text for text in said] == [False, *[len(set(winners)) == 1] * (len(numbers) - 1)]
            agreed += len(set(winners)) == 1
    assert agreed


def test_the_page_is_small_whole_and_asks_for_nothing(bundled):
    _, text, read, _ = bundled
    assert len(text.encode()) <= MOST_BYTES
    assert read.unclosed == []
    assert "http://" not in text
    assert "https://" not in text
    assert "url(" not in text
    assert "@import" not in text
    targets = [found[name] for _, found in read.tags for name in ("href", "src", "xlink:href") if name in found]
    ids = [found["id"] for _, found in read.tags if "id" in found]
    assert {target[1:] for target in targets} <= set(ids)
    assert len(ids) == len(set(ids))


def test_the_page_can_be_heard(bundled):
    """Landmarks, headings without gaps, captions and scopes, a title for each plot, and names for what is focused."""
    _, text, read, _ = bundled
    tags = Counter(tag for tag, _ in read.tags)
    assert tags["main"] == tags["h1"] == tags["header"] == 1
    assert all(after - before <= 1 for before, after in zip(read.headings, read.headings[1:], strict=False))
    assert tags["caption"] == tags["table"]
    assert all(found.get("scope") in {"col", "row"} for tag, found in read.tags if tag == "th")
    plots = [found for tag, found in read.tags if tag == "svg"]
    assert plots
    assert all(found["role"] == "img" for found in plots)
    assert text.count("<desc>") == len(plots)
    assert all("aria-label" in found for _, found in read.tags if "tabindex" in found)


@pytest.fixture
def home(tmp_path, monkeypatch, capsys):
    return Home(tmp_path, monkeypatch, capsys)


def gathered(lock, **given):
    text = lockfile.dumps(lock)
    return GatheredProject(
        **{"title": "demo", "name": "pretuned.lock.json", "text": text, "lock": lock, "document": json.loads(text)}
        | given
    )


def shown(found):
    """The page of what was gathered, and the page as read."""
    text = page(report_of(found))
    return text, Page(text)


@pytest.fixture
def hostile(home):
    """A lock whose every text is markup, as one that somebody sends may be."""
    problem = Problem(specialisation=((HOSTILE, HOSTILE),), dims=((HOSTILE, 4096),))
    choices = tuple(
        Choice(
            configuration=Configuration(implementation=HOSTILE, values=((HOSTILE, value),)),
            candidate="c",
            cubin="d",
            time_us=time_us,
            ratio=(0.9, 1.0),
            library=HOSTILE,
        )
        for value, time_us in (("<b>", 1.0), (HOSTILE, 2.0))
    )
    row = replace(home.rows()[0], kernel=HOSTILE, device=HOSTILE, problem=problem, choices=choices, noise=HOSTILE)
    rule = selections(home.spec)[0]
    rule = replace(rule, kernel=HOSTILE, device=HOSTILE, specialisation=((HOSTILE, HOSTILE),))
    return Lock().updated({HOSTILE: replace(H100, name=HOSTILE)}, [row], [], [rule])


def test_names_are_never_markup(hostile):
    past = {"rows": [{"kernel": HOSTILE}]}
    version = LockVersion(commit="0" * 40, date="2026-11-22", subject=HOSTILE, document=past)
    states = dict.fromkeys(hostile.keys, (HOSTILE, HOSTILE))
    note = {"title": HOSTILE, "note": HOSTILE, "states": states, "before_name": HOSTILE, "before": past}
    course = Course(
        kernel=HOSTILE,
        device=HOSTILE,
        date=HOSTILE,
        seconds=((HOSTILE, 1.0),),
        curves=(Curve(problem=HOSTILE, default_us=None, points=((0.1, 3.0), (1.0, 2.0))),),
    )
    text, read = shown(gathered(hostile, versions=[version], courses=[course], **note))
    tags = Counter(tag for tag, _ in read.tags)
    assert (tags["script"], tags["b"], read.unclosed) == (1, 0, [])
    assert not [found for _, found in read.tags if "onload" in found]
    assert "49" not in [cell for _, _, cells in read.rows for _, cell in cells]
    assert text.count("&lt;script&gt;alert(1)") > 10
    assert text.count("<script>") == 1


def test_names_are_no_markup_of_markdown_either(hostile):
    text = markdown(report_of(gathered(hostile, title=HOSTILE, before={}, before_name=HOSTILE)))
    for line in text.splitlines():
        bare = re.sub(r"\\.", "", line)
        assert "<script" not in bare
        assert "`" not in bare
        assert "](" not in bare
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len({re.sub(r"\\.", "", line).count("|") for line in table}) == 1


def test_a_lock_without_rows_says_what_to_do():
    text, read = shown(gathered(Lock()))
    assert "Run <code>pretuned tune</code> on a machine with a GPU" in text
    assert read.of_table(class_="rows sortable") == []
    assert read.unclosed == []


def test_a_lock_of_the_host_device_has_no_share_of_a_bandwidth(home):
    host = replace(H100, name="host", memory_gbps=100)
    lock = Lock().updated({"host": host}, home.rows(device="host"))
    text, read = shown(gathered(lock, specs={"scale": home.spec}))
    cells = [found for _, found in read.of_table(class_="rows sortable")]
    assert {one["share"] for one in cells} == {"-"}
    assert "GB/s" not in text


def test_a_lock_is_shown_without_its_specs(home):
    lock = Lock().updated({H100.name: H100}, home.rows(), [], selections(home.spec))
    text, read = shown(gathered(lock, note="the spec has a fault"))
    assert "States and bytes are missing: the spec has a fault." in text
    assert "product of the dims" in text
    assert len(read.of_table(class_="rows sortable")) == 4
    assert len(read.of_table(id="losses")) == 4


def test_a_line_that_another_program_has_written_has_no_number(home):
    lock = Lock().updated({H100.name: H100}, home.rows())
    _, read = shown(gathered(lock, text=json.dumps(json.loads(lockfile.dumps(lock)), indent=1)))
    assert [cells["line"] for _, cells in read.of_table(class_="rows sortable")] == ["-"] * 4


def test_percentiles_stand_beside_the_winners_of_rows_that_kept_them(home):
    first, *others = home.rows()
    winner, *further = first.choices
    kept = replace(first, choices=(replace(winner, spread_us=(3.5, 3.9, 4.25)), *further))
    lock = Lock().updated({H100.name: H100}, [kept, *others], [], [])
    _, read = shown(gathered(lock))
    cells = [found["spread_us"] for _, found in read.of_table(class_="rows sortable")]
    assert sorted(cells) == ["-", "-", "-", "3.500, 3.900, 4.250"]
    without = Lock().updated({H100.name: H100}, home.rows(), [], [])
    assert "spread_us" not in shown(gathered(without))[1].of_table(class_="rows sortable")[0][1]


HUGE, TINY, LARGE = 10**400, 5e-324, 1.7e308


@pytest.mark.parametrize("times", [(TINY, LARGE), (LARGE, TINY), (TINY, TINY), (1.0, 1.0)])
@pytest.mark.parametrize("ratio", [(-LARGE, LARGE), (0.0, 0.0), (LARGE, TINY), (1.0, 1.0)])
def test_numbers_that_nobody_measured_are_shown_all_the_same(home, times, ratio):
    """A lock from somewhere else is data that anybody may have written, with digests that fit."""
    device = replace(H100, memory_gbps=HUGE, memory_bytes=HUGE, power_w=-1)
    first, *others = home.rows()
    choices = tuple(replace(one, time_us=us, ratio=ratio) for one, us in zip(first.choices, times, strict=True))
    far = replace(first, choices=choices, problem=replace(first.problem, dims=(("n", HUGE),)))
    lost = replace(losses((("n", HUGE),)), mean=LARGE, p95=LARGE, worst=LARGE)
    rule = selections(home.spec, certificate=Certificate(seed=1, inside=lost))[0]
    lock = Lock().updated({H100.name: device}, [far, *others], [], [rule])
    for specs in ({}, {"scale": home.spec}):
        text, read = shown(gathered(lock, specs=specs, before=json.loads(lockfile.dumps(lock))))
        assert len(read.of_table(class_="rows sortable")) == 4
        assert not re.search(r'(?:cx|cy|d)="[^"]*(?:nan|inf)', text)


def test_the_same_lock_gives_the_same_page(home):
    lock = Lock().updated({H100.name: H100}, home.rows(), [], selections(home.spec))
    assert shown(gathered(lock))[0] == shown(gathered(lock))[0]


def test_all_held_out_problems_are_dots_where_the_cache_has_them(home):
    lock = Lock().updated({H100.name: H100}, home.rows(), [], selections(home.spec))
    rule = lock.selections[0]
    dots = tuple(HeldOut(dims=(("n", n),), loss=n / 1e6, inside=True, slower=n > 3000) for n in (1031, 2049, 4097))
    text, _ = shown(gathered(lock, specs={"scale": home.spec}, held_out={rule.key: dots}))
    assert "<title>n=2049: 0.2%</title>" in text
    assert "<title>n=4097: 0.4%, slower than the default</title>" in text


def test_the_words_of_the_tables_heads_are_explained_in_the_page(bundled):
    _, text, _, _ = bundled
    heads = set(re.findall(r'<th scope="col"[^>]*>([^<]+)', text))
    told = ", ".join(re.findall(r"<dt>([^<]+)</dt>", text)).split(", ")
    words = ["problem", "default", "winner", "faster", "bandwidth", "p50", "state", "line", "slower", "ships"]
    words += ["times", "spread", "selection", "certificate", "noisy", "geometric mean"]
    assert [word for word in words if not any(word in head for head in heads)] == []
    assert [word for word in words if word not in told] == []
