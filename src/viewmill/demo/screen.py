"""What the demo shows: the batches as they come, the views as they are, and in the end whether they are right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from viewmill.bench.orders import Changed
from viewmill.result import Result

_ROWS = 4
"""Of a live view."""


@dataclass
class Screen:
    """On a terminal it is drawn over and over; elsewhere every batch is a line."""

    console: Console
    batches: int
    live_views: Mapping[str, str]
    """Titles of the views that are shown live, by name."""
    _rows: dict[str, Result] = field(default_factory=dict)
    _last: Text = field(default_factory=Text)

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False)

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """While batches come."""
        columns = (TextColumn("[bold]batches[/]"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=self.console)
        self._task = self._progress.add_task("batches", total=self.batches)
        if not self.console.is_terminal:
            yield
            return
        with Live(get_renderable=self._drawn, console=self.console, refresh_per_second=4):
            yield

    def batch(self, number: int, seconds: float, changes: Mapping[str, Changed], views: Mapping[str, Result]) -> None:
        inserted = sum(len(changed.inserted) for changed in changes.values())
        updated = sum(len(changed.after) for changed in changes.values())
        deleted = sum(len(changed.deleted) for changed in changes.values())
        counts = f"{inserted:,} rows inserted, {updated:,} updated, {deleted:,} deleted"
        self._last = Text(f"batch {number}: {counts}; all views fresh in {_time(seconds)}")
        self._rows = dict(views)
        self._progress.advance(self._task)
        if not self.console.is_terminal:
            self.say(str(self._last))

    def _drawn(self) -> Group:
        shown = [_short(self.live_views[name], rows) for name, rows in self._rows.items()]
        return Group(*shown, self._last, self._progress)

    def verdict(self, oracle: str, found: Mapping[str, tuple[str, float]], sizes: Mapping[str, int]) -> None:
        table = Table(title=f"Every view against {oracle} on the same rows", title_justify="left", header_style="bold")
        for name, justify in (("view", "left"), ("rows", "right"), ("the same", "left"), ("recomputed in", "right")):
            table.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
        for name, (wrong, seconds) in found.items():
            same = Text(wrong, style="red") if wrong else Text("yes", style="green")
            table.add_row(name, f"{sizes[name]:,}", same, _time(seconds))
        self.console.print(table)

    def summary(self, oracle: str, share: float, refreshes: Sequence[float], recomputed: float, views: int) -> None:
        median = sorted(refreshes)[len(refreshes) // 2]
        self.say(f"Refreshing {views} views after changes of {share:.1%} of the rows: {_time(median)}, a median.")
        self.say(f"Recomputing them with {oracle}: {_time(recomputed)}, {recomputed / median:.1f} times as long.")


def _short(title: str, rows: Result) -> Table:
    """The first rows of a view, and how many there are."""
    table = Result(rows.columns, rows.rows[:_ROWS], rows.version).__rich__()
    more = f", {_ROWS} of {len(rows):,} rows" if len(rows) > _ROWS else ""
    table.title, table.title_justify = f"{title} (version {rows.version}{more})", "left"
    return table


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{seconds * 1000:.1f} ms"
