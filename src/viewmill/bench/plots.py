"""The pictures of a run, as PNG and SVG. Each shows one question, for all queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no window: files only

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from viewmill.bench.figures import number, size_name, times
from viewmill.bench.reference import DBTOASTER, EXPLODING
from viewmill.bench.reference import SIZE as DBTOASTER_SIZE
from viewmill.bench.results import Run, Size, faster, geometric_mean, growth
from viewmill.bench.targets import GROWTH

STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "xtick.bottom": False,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "svg.hashsalt": "viewmill",  # the same picture is the same file
    "svg.fonttype": "none",
}
BLUE, GREY, ORANGE, GREEN = "#2b6cb0", "#8a8f98", "#dd6b20", "#2f855a"
MARKS = {"recursive": ("o", ORANGE), "first_order": ("D", GREEN), "auto": ("s", BLUE)}


def draw(run: Run, folder: Path, name: str) -> list[Path]:
    """Every picture that the run has figures for; the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    with matplotlib.rc_context(STYLE):
        for title, picture in _pictures(run):
            files += save_picture(picture, folder, f"{name}-{title}")
            plt.close(picture)
    return files


def save_picture(picture: Figure, folder: Path, name: str) -> list[Path]:
    """As PNG and as SVG."""
    files = [folder / f"{name}.{suffix}" for suffix in ("png", "svg")]
    for file in files:
        metadata = {"Date": None} if file.suffix == ".svg" else {}
        picture.savefig(file, dpi=150, bbox_inches="tight", metadata=metadata)
    return files


def _pictures(run: Run) -> Iterator[tuple[str, Figure]]:
    main = "auto" if "auto" in run.strategies or not run.strategies else run.strategies[0]
    makers: Mapping[str, Callable[[Run, str], Figure | None]] = {
        "batch-sizes": _batch_sizes,
        "duckdb": _against_duckdb,
        "dbtoaster": _against_dbtoaster,
        "growth": _growth,
    }
    for title, make in makers.items():
        if (picture := make(run, main)) is not None:
            yield title, picture


def _batch_sizes(run: Run, strategy: str) -> Figure | None:
    """Hot Dog, Figure 7: throughput of each batch size, with single rows as the unit."""
    sizes = [size for size in run.sizes if size != "single"]
    relative = {query: _relative(run, query, strategy, sizes) for query in run.queries}
    relative = {query: values for query, values in relative.items() if values}
    if not relative:
        return None
    queries = list(relative)
    lines = [queries[start : start + 11] for start in range(0, len(queries), 11)]
    figure, rows = plt.subplots(len(lines), 1, figsize=(11, 2.9 * len(lines) + 0.6), sharey=True, squeeze=False)
    colours = matplotlib.colormaps["viridis_r"]
    for axes, line in zip(rows[:, 0], lines, strict=True):
        for place, size in enumerate(sizes):
            shift = (place - (len(sizes) - 1) / 2) * 0.8 / len(sizes)
            known = [(x, relative[query][size]) for x, query in enumerate(line) if size in relative[query]]
            heights = [value - 1 for _, value in known]  # bars stand on 1, and hang from it where a size is slower
            colour = colours(0.1 + 0.85 * place / max(1, len(sizes) - 1))
            xs = [x + shift for x, _ in known]
            axes.bar(xs, heights, 0.8 / len(sizes), bottom=1, color=colour, label=size_name(size))
        _scaled(axes, line, "relative to single rows")
        axes.axhline(1, color="#333333", linewidth=0.8)
    rows[0, 0].set_title(f"Throughput by batch size, single rows = 1 ({strategy}, insert-only stream{_at(run)})")
    handles, labels = rows[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, title="rows in a batch", ncols=len(sizes), loc="lower center", frameon=False)
    figure.subplots_adjust(hspace=0.3, bottom=0.13 if len(lines) > 1 else 0.27)
    return figure


def _relative(run: Run, query: str, strategy: str, sizes: list[Size]) -> dict[Size, float]:
    single = run.cell(query, strategy, "inserts", "single")
    if single is None or not single.measured:
        return {}
    cells = {size: run.cell(query, strategy, "inserts", size) for size in sizes}
    return {size: c.throughput / single.throughput for size, c in cells.items() if c and c.measured}


def _against_duckdb(run: Run, strategy: str) -> Figure | None:
    def ratio(query: str, way: str) -> float | None:
        return faster(run, run.cell(query, way, "changes", "1000"))

    found = {query: value for query in run.queries if (value := ratio(query, strategy))}
    if not found:
        return None
    figure, axes = plt.subplots(figsize=(11, 3.8))
    tops = _bars(axes, found, f"{strategy}, geometric mean {times(geometric_mean(found.values()))}")
    for way in run.strategies:
        others = {x: value for x, query in enumerate(found) if way != strategy and (value := ratio(query, way))}
        mark, colour = MARKS.get(way, ("x", GREY))
        if others:
            axes.plot(list(others), list(others.values()), mark, color=colour, label=way, markeredgecolor="white")
        tops = [max(top, others.get(x, top)) for x, top in enumerate(tops)]
    _write(axes, found, tops)
    axes.set_title(f"Times faster than DuckDB evaluating anew, batches of 1,000 inserts and deletes{_at(run, ', ')}")
    _scaled(axes, list(found), "times faster")
    _levels(axes, {1: "DuckDB", 10: "", 100: ""})
    axes.legend(ncols=4, loc="upper left", bbox_to_anchor=(0, -0.08))
    return figure


def _against_dbtoaster(run: Run, strategy: str) -> Figure | None:
    cells = {query: run.cell(query, strategy, "inserts", DBTOASTER_SIZE) for query in run.queries}
    found = {q: c.throughput / DBTOASTER[q] for q, c in cells.items() if c and c.measured and q in DBTOASTER}
    if not found:
        return None
    figure, axes = plt.subplots(figsize=(11, 3.8))
    tops = _bars(axes, found, strategy)
    asked = [3 if query in EXPLODING else 1 for query in found]
    left = [x - 0.4 for x in range(len(asked))]
    axes.hlines(asked, left, [x + 0.8 for x in left], ORANGE, linewidth=1.8, label="asked for", zorder=3)
    _write(axes, found, tops)
    axes.set_title(
        f"Throughput in units of DBToaster's C++, batches of {int(DBTOASTER_SIZE):,} inserts{_at(run, ', ')}"
    )
    _scaled(axes, list(found), "times faster")
    _levels(axes, {1: "DBToaster"})
    axes.legend(ncols=2, loc="upper left", bbox_to_anchor=(0, -0.08))
    return figure


def _growth(run: Run, strategy: str) -> Figure | None:
    found = {query: value for query in run.queries if (value := growth(run, query, strategy))}
    if not found:
        return None
    figure, axes = plt.subplots(figsize=(11, 3.4))
    colours = [BLUE if value <= GROWTH else ORANGE for value in found.values()]
    axes.bar(range(len(found)), list(found.values()), 0.7, color=colours)
    axes.set_title(
        f"Cost of a 1,000-row batch at scale {run.scale:g}, relative to scale {run.small_scale:g} ({strategy})"
    )
    axes.set_xticks(range(len(found)), [_title(query) for query in found])
    axes.set_ylim(0, max(2.0, *found.values()) * 1.08)
    axes.grid(axis="y")
    _levels(axes, {1: "no growth", GROWTH: f"{GROWTH}x"})
    return figure


def _bars(axes: Axes, found: dict[str, float], label: str) -> list[float]:
    """Bars that stand on 1, or hang from it; where each ends."""
    values = list(found.values())
    axes.bar(range(len(values)), [value - 1 for value in values], 0.7, bottom=1, color=BLUE, label=label)
    return values


def _write(axes: Axes, found: dict[str, float], tops: list[float]) -> None:
    """Each value at the end of its bar, past whatever else is drawn there."""
    for x, (value, top) in enumerate(zip(found.values(), tops, strict=True)):
        up = top >= 1
        axes.annotate(
            number(value) if value >= 0.01 else f"{value:.0e}",
            (x, top),
            (0, 5 if up else -4),
            textcoords="offset points",
            ha="center",
            va="bottom" if up else "top",
            fontsize=7.5,
            color="#444444",
        )


def _scaled(axes: Axes, queries: list[str], label: str) -> None:
    """A logarithmic axis that reads 0.1, 1, 10, 1,000, and a tick for each query."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    low, high = min(low, 0.5) * 0.8, max(high, 2.0) * 1.5
    axes.set_ylim(low, high)
    wide = high / low > 1000
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=20))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xticks(range(len(queries)), [_title(query) for query in queries])
    axes.set_xlim(-0.6, len(queries) - 0.4)
    axes.set_ylabel(label)
    axes.grid(axis="y")


def _title(query: str) -> str:
    """`q01` as Q1"""
    return f"Q{int(query[1:])}"


def _levels(axes: Axes, levels: Mapping[float, str]) -> None:
    for level, name in levels.items():
        axes.axhline(level, color="#333333", linewidth=0.8, linestyle="-" if level == 1 else ":")
        if name:
            axes.annotate(
                name, (1, level), (3, 0), xycoords=("axes fraction", "data"), textcoords="offset points", va="center",
                fontsize=7.5, color="#444444",
            )  # fmt: skip


def _at(run: Run, before: str = " at ") -> str:
    return f"{before}scale factor {run.scale:g}"
