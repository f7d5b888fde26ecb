"""The picture of a run on Spark: how long views take to refresh, and to be computed anew."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from viewmill.bench.figures import duration, times
from viewmill.bench.plots import BLUE, GREY, STYLE, save_picture
from viewmill.bench.spark_run import SparkRun

_FEW = 8
"""Mills whose times can be written on the bars."""


def draw(run: SparkRun, folder: Path, name: str) -> list[Path]:
    """The files."""
    with matplotlib.rc_context(STYLE):
        picture = _refresh_and_anew(run)
        files = save_picture(picture, folder, name)
        plt.close(picture)
    return files


def _refresh_and_anew(run: SparkRun) -> Figure:
    mills = [refresh for refresh in run.whole if refresh.rows]
    figure, axes = plt.subplots(figsize=(min(16.0, max(5.5, 1.3 * len(mills) + 1.5)), 3.6))
    pairs = [(refresh.seconds, run.anew(refresh)) for refresh in mills]
    for place, (colour, label) in enumerate(((BLUE, "refresh"), (GREY, "anew, by Spark SQL"))):
        places = [x + (place - 0.5) * 0.38 for x in range(len(mills))]
        heights = [pair[place] for pair in pairs]
        axes.bar(places, heights, 0.36, color=colour, label=label)
        for x, height in zip(places, heights, strict=True) if len(mills) <= _FEW else ():
            axes.annotate(duration(height), (x, height), (0, 2), textcoords="offset points", ha="center", fontsize=7.5)
    axes.set_yscale("log")
    axes.set_ylim(min(map(min, pairs)) / 2, max(map(max, pairs)) * 3)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_ylabel("seconds")
    axes.grid(axis="y")
    labels = [f"{mill.title}\n{times(anew / own)}" for mill, (own, anew) in zip(mills, pairs, strict=True)]
    axes.set_xticks(range(len(mills)), labels)
    rows = f"{mills[0].rows:,} rows"
    axes.set_title(f"Views on Spark after a batch of {rows} (TPC-H, scale factor {run.scale:g})", fontsize=10)
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.16), ncols=2)
    return figure
