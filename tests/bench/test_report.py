"""Results as files, tables and pictures."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console
from typer.testing import CliRunner

from viewmill.bench.figures import duration, number, size_name, times
from viewmill.bench.queries import tpch_queries
from viewmill.bench.report import markdown, save, show
from viewmill.bench.results import (
    SIZES,
    Baseline,
    Book,
    Cell,
    FirstUse,
    Place,
    Run,
    Share,
    faster,
    growth,
    percentile,
    read,
    rows_in,
    write,
)
from viewmill.bench.tables import problems, throughput
from viewmill.bench.targets import targets
from viewmill.cli import app

STRATEGIES = ("auto", "recursive", "first_order")


def cell(query, strategy, phase, size, scale=1.0, rate=1e6, **more):
    """A second of batches at a rate."""
    batches = max(1, int(rate / rows_in(size)))
    rows, seconds = batches * rows_in(size), batches * rows_in(size) / rate
    shares = {query.reads[0]: Share(batches, rows, seconds)}
    each = seconds / batches
    kept = dict.fromkeys(query.reads, "recursive")
    given = {"batches": batches, "rows": rows, "seconds": seconds, "p50": each, "p99": 2 * each, "state": 10**6}
    return Cell(query.name, strategy, phase, size, scale, relations=shares, maintenance=kept, **{**given, **more})


@pytest.fixture(scope="module")
def run():
    queries = [tpch_queries()[name] for name in ("q01", "q05", "q09", "q15")]
    cells = [
        cell(query, strategy, phase, size, rate=1e5 * (1 + rows_in(size) % 7919))
        for query in queries
        for strategy in STRATEGIES
        for phase in ("inserts", "changes")
        for size in SIZES
    ]
    cells += [cell(query, "auto", "changes", "1000", 0.1, rate=1.1e8) for query in queries]
    return Run(
        Place("abc1234", "a machine", "Python", "2025-01-31"),
        scale=1.0,
        seconds=1.0,
        threads=2,
        cells=tuple(cells),
        baselines=tuple(Baseline(q.name, 0.2, q.reads[0], dict.fromkeys(SIZES[1:], 0.01)) for q in queries),
        first_uses=tuple(FirstUse(query.name, 1.5, 0.1) for query in queries),
    )


@pytest.fixture(scope="module")
def saved(run, tmp_path_factory):
    return save(run, tmp_path_factory.mktemp("results"), "one")


def few(run, *queries):
    return replace(run, cells=tuple(cell for cell in run.cells if cell.query in queries))


def test_a_run_is_read_back_from_its_file(run, saved):
    again = read(saved[0])
    assert again.queries == run.queries and again.strategies == STRATEGIES and again.sizes == SIZES
    assert again.baselines == run.baselines and again.first_uses == run.first_uses and again.place == run.place
    assert again.cell("q05", "auto", "inserts", "100").relations["lineitem"].rows > 0


def test_all_files_are_written(saved):
    pictures = {"batch-sizes", "duckdb", "dbtoaster", "growth"}
    wanted = {"one.json", "one.md"} | {f"one-{picture}.{kind}" for picture in pictures for kind in ("png", "svg")}
    assert {file.name for file in saved} == wanted
    assert all(file.stat().st_size > 1000 for file in saved)


def test_the_same_results_are_the_same_picture(run, tmp_path):
    part = replace(few(run, "q01"), baselines=())
    for one, other in zip(save(part, tmp_path / "a", "x"), save(part, tmp_path / "b", "x"), strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name


def test_tables_fit_a_terminal(run):
    console = Console(width=80, file=StringIO())
    show(run, console)
    text = console.file.getvalue()
    assert "…" not in text and max(map(len, text.splitlines())) <= 80
    assert "DBToaster" in text and "unfinished" in text and "Targets" in text


def test_a_busy_machine_is_mentioned(run):
    assert "not to be trusted" in markdown(replace(run, place=replace(run.place, load=1.5)), [])
    assert "not to be trusted" not in markdown(run, [])


def test_markdown_says_where_and_how(run):
    text = markdown(run, [])
    for words in ("commit abc1234", "a machine", "multiset", "### Targets", "DuckDB re-evaluation", "first_order"):
        assert words.lower() in text.lower()


def test_wrong_cells_are_shown(run):
    query = tpch_queries()["q01"]
    bad = cell(query, "auto", "inserts", "100", status="wrong", note="missing (1, 2)")
    broken = replace(run, cells=(bad, cell(query, "auto", "inserts", "1", status="refused", note="no way")))
    grid = throughput(broken, "auto", "inserts")
    assert grid.rows[0][1:3] == ("WRONG", "refused")
    assert "q01 auto inserts 100: wrong: missing (1, 2)" in list(problems(broken))
    assert [each.note for each in broken.wrong()] == ["missing (1, 2)"]


def test_a_wrong_run_ends_with_1(run, tmp_path):
    bad = cell(tpch_queries()["q01"], "auto", "inserts", "100", status="wrong", note="missing (1, 2)")
    write(replace(run, cells=(bad,)), tmp_path / "bad.json")
    write(replace(run, cells=run.cells[:1]), tmp_path / "good.json")
    assert CliRunner().invoke(app, ["bench", "draw", str(tmp_path / "bad.json")]).exit_code == 1
    good = CliRunner().invoke(app, ["bench", "draw", str(tmp_path / "good.json"), "--output", str(tmp_path / "again")])
    assert good.exit_code == 0, good.output
    assert (tmp_path / "again" / "good.md").is_file()


def test_what_is_no_result_is_refused(tmp_path):
    (tmp_path / "x.json").write_text("{}")
    answer = CliRunner().invoke(app, ["bench", "draw", str(tmp_path / "x.json")])
    assert answer.exit_code == 1 and "DataError: cannot read results" in answer.stderr


def test_ratios(run):
    one = run.cell("q01", "auto", "changes", "1000")
    assert faster(run, one) == pytest.approx(0.2 / one.per_batch)
    assert growth(run, "q01", "auto") == pytest.approx(1.1e8 / one.throughput)
    assert faster(run, None) is None and growth(replace(run, cells=()), "q01", "auto") is None


def test_targets_are_not_met_by_what_is_missing(run):
    by_name = {target.what: target for target in targets(run, "auto")}
    assert by_name["1,000-row batches against DuckDB, least"].met
    fewer = replace(run, cells=tuple(replace(c, status="slow") if c.query == "q09" else c for c in run.cells))
    by_name = {target.what: target for target in targets(fewer, "auto")}
    assert not by_name["1,000-row batches against DuckDB, least"].met


def test_a_book(tmp_path):
    book = Book("single", 1000, "ok", "", 100, 0.001, 1e-5, 2e-5)
    run = Run(Place("abc", "m", "v", "d"), 0.0, 1.0, books=(book,))
    save(run, tmp_path, "vwap")
    assert read(tmp_path / "vwap.json").books == (book,)
    text = (tmp_path / "vwap.md").read_text()
    assert "VWAP over a book of 1,000 orders" in text and "100,000 updates/s" in text


def test_figures():
    assert [number(value) for value in (8.1e6, 780_000, 17, 0.05, 999_700, None)] == [
        "8.10M",
        "780k",
        "17.0",
        "0.05",
        "1.00M",
        "-",
    ]
    assert [duration(value) for value in (4.2e-6, 0.0123, 2.5, None)] == ["4.20 µs", "12.3 ms", "2.50 s", "-"]
    assert [times(value) for value in (1234.0, 2.5, 0.001, None)] == ["1.23kx", "2.50x", "<0.01x", "-"]
    assert [size_name(size) for size in SIZES] == ["single", "1", "10", "100", "1k", "10k", "100k"]
    assert [percentile([1.0, 2.0, 3.0, 4.0], share) for share in (0.5, 0.99)] == [2.0, 4.0]
