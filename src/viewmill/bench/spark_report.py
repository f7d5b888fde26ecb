"""What a run on Spark found: tables for the terminal and Markdown, JSON, and a picture."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, median
from typing import Any

from viewmill.bench import spark_run
from viewmill.bench.figures import duration, times
from viewmill.bench.reference import SPARK_JOBS, SPARK_STAGES
from viewmill.bench.spark_plots import draw
from viewmill.bench.spark_run import Refresh, SparkRun
from viewmill.bench.tables import Grid
from viewmill.distribute import ALL_PASSES
from viewmill.errors import DataError


def grids(run: SparkRun) -> list[Grid]:
    found = [Grid(f"Views on Spark, TPC-H at scale factor {run.scale:g}", _HEAD, tuple(_times(run)), _note(run))]
    costs = tuple((r.title, str(r.jobs), str(r.stages), _shuffled(r), _paper(r)) for r in run.whole if r.rows)
    found.append(
        Grid("What a batch costs Spark", ("views", "jobs", "stages", "shuffled", "jobs, stages in the paper"), costs)
    )
    ablated = [refresh for refresh in run.refreshes if refresh.passes != ALL_PASSES]
    if ablated:
        ablated += [refresh for refresh in run.whole if refresh.views == ablated[0].views]
        rows = tuple((_passes(r), duration(r.seconds), str(r.jobs), str(r.stages), _shuffled(r)) for r in ablated)
        title = f"What the optimisations are worth: {ablated[0].title}"
        found.append(Grid(title, ("passes", "batch", "jobs", "stages", "shuffled"), rows))
    return found


_HEAD = ("views", "load", "refresh", "anew", "anew / refresh")


def _times(run: SparkRun) -> Iterator[tuple[str, ...]]:
    for refresh in run.whole:
        if not refresh.rows:
            continue
        anew = run.anew(refresh)
        ratio = times(anew / refresh.seconds)
        yield refresh.title, duration(refresh.load), duration(refresh.seconds), duration(anew), ratio


def _note(run: SparkRun) -> str:
    first = run.whole[0]
    parts = [
        f"Batches of {first.rows:,} rows, medians of {len(first.batches)}; {run.buckets} buckets.",
        f"A batch without rows takes {duration(run.empty_batch)}, "
        f"{times(run.empty_batch / run.empty_job)} a job of two Python stages with nothing to do.",
    ]
    alone = [r for r in run.whole if r.title in run.turns and r.rows]
    if len(first.views) > 1 and alone:
        turns = {refresh.title: median(run.turns[refresh.title]) for refresh in alone}
        ratios = sorted(turns[refresh.title] / refresh.seconds for refresh in alone)
        parts.append(
            f"In turns with each of these alone, all {len(first.views)} views take {times(ratios[0])} to "
            f"{times(ratios[-1])} as long as that one, {times(median(ratios))} in the middle, and "
            f"{times(sum(turns.values()) / sum(refresh.seconds for refresh in alone))} the mean. "
            f"Of {len(run.together)} batches of all views, with the snapshots that were due, the mean is "
            f"{duration(fmean(run.together))} and the longest {duration(max(run.together))}."
        )
    unchanged = [refresh.title for refresh in run.whole if not refresh.rows]
    if unchanged:
        parts.append(f"Batches change nothing that {', '.join(unchanged)} read: these are left out.")
    return " ".join(parts)


def _paper(refresh: Refresh) -> str:
    if len(refresh.views) > 1:
        return "-"
    number = int(refresh.views[0][1:]) - 1
    return f"{SPARK_JOBS[number]}, {SPARK_STAGES[number]}"


def _shuffled(refresh: Refresh) -> str:
    return "-" if refresh.shuffled is None else f"{refresh.shuffled / 1e6:.2f} MB"


def _passes(refresh: Refresh) -> str:
    """The passes are switched on one after the other: each line names the one that it adds."""
    return "all" if refresh.passes == ALL_PASSES else f"+ {refresh.passes[-1]}" if refresh.passes else "none"


def save(run: SparkRun, folder: Path, name: str) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    place = run.place
    head = f"Commit {place['commit']}, {place['date']}. Machine: {place['machine']}. {place['versions']}."
    method = " ".join((spark_run.__doc__ or "").split())
    title = f"# Views on Spark, scale factor {run.scale:g}"
    files = [folder / f"{name}.md", folder / f"{name}.json"]
    picture = f"![{name}]({name}.png)"
    files[0].write_text("\n\n".join([title, head, method, picture, *(grid.markdown() for grid in grids(run))]) + "\n")
    files[1].write_text(json.dumps(asdict(run), indent=1))
    return [*files, *draw(run, folder, name)]


def read(file: Path) -> SparkRun | None:
    """What `save` has stored; None if the file holds something else."""
    try:
        told = json.loads(file.read_text())
        if not isinstance(told, dict) or "refreshes" not in told:
            return None
        turns = {name: tuple(seconds) for name, seconds in told.pop("turns").items()}
        refreshes = [_refresh(**refresh) for refresh in told.pop("refreshes")]
        return SparkRun(**told, refreshes=refreshes, turns=turns)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"cannot read results from {str(file)!r}: {error}") from None


def _refresh(views: list[str], batches: list[float], passes: list[str], **others: Any) -> Refresh:
    return Refresh(views=tuple(views), batches=tuple(batches), passes=tuple(passes), **others)
