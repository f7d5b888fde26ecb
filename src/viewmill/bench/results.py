"""What a run found, as data: enough to draw every table and picture again.

A cell is one query, maintained one way, fed with batches of one size in one phase. All times are seconds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from viewmill.errors import DataError

Size: TypeAlias = str
"""Rows in a batch, as a number; `single` is one row as a Python tuple."""
Phase: TypeAlias = Literal["inserts", "changes"]
"""`inserts`: the second half of the stream over a state of the first. `changes`: inserts and deletes at full size."""
Status: TypeAlias = Literal["ok", "wrong", "failed", "refused", "slow", "large", "small"]
"""`slow`: no answer within the limit. `large`: it takes more memory than the machine can spare. `small`: there are too
few rows for batches of this size.
"""

SIZES: tuple[Size, ...] = ("single", "1", "10", "100", "1000", "10000", "100000")
STRATEGIES = ("auto", "recursive", "first_order")


def rows_in(size: Size) -> int:
    return 1 if size == "single" else int(size)


@dataclass(frozen=True, slots=True)
class Share:
    """What one relation had of a cell."""

    batches: int
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Cell:
    """`read` is the time to read the whole view; `state` the bytes of all stores, None where they are not accounted."""

    query: str
    strategy: str
    phase: Phase
    size: Size
    scale: float
    status: Status = "ok"
    note: str = ""
    batches: int = 0
    rows: int = 0
    seconds: float = 0.0
    p50: float = 0.0
    p99: float = 0.0
    load: float = 0.0
    read: float = 0.0
    state: int | None = None
    relations: dict[str, Share] = field(default_factory=dict)
    maintenance: dict[str, str] = field(default_factory=dict)

    @property
    def throughput(self) -> float:
        """Rows per second."""
        return self.rows / self.seconds if self.seconds else math.nan

    @property
    def per_batch(self) -> float:
        return self.seconds / self.batches if self.batches else math.nan

    @property
    def measured(self) -> bool:
        return self.status == "ok" and self.rows > 0


@dataclass(frozen=True, slots=True)
class Baseline:
    """DuckDB at full size: the time to evaluate the query anew, and to apply a batch of each size to `relation`."""

    query: str
    refresh: float
    relation: str
    apply: dict[Size, float]


@dataclass(frozen=True, slots=True)
class FirstUse:
    """CREATE plus the first batch in a new process: with nothing cached, and with everything."""

    query: str
    cold: float
    warm: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Book:
    """VWAP over a book of so many orders, in batches of one size."""

    size: Size
    orders: int
    status: Status
    note: str
    updates: int
    seconds: float
    p50: float
    p99: float

    @property
    def throughput(self) -> float:
        return self.updates / self.seconds if self.seconds else math.nan

    @property
    def measured(self) -> bool:
        return self.status == "ok" and self.updates > 0


@dataclass(frozen=True, slots=True)
class Place:
    """Where and when a run was made. `load` is the mean number of busy threads in the minute before it."""

    commit: str
    machine: str
    versions: str
    date: str
    load: float = 0.0

    @property
    def disturbed(self) -> bool:
        """Other work was running, and perhaps went on."""
        return self.load > 0.7


@dataclass(frozen=True, slots=True)
class Run:
    """Everything that one command measured."""

    place: Place
    scale: float
    seconds: float
    threads: int = 0
    cells: tuple[Cell, ...] = ()
    baselines: tuple[Baseline, ...] = ()
    first_uses: tuple[FirstUse, ...] = ()
    books: tuple[Book, ...] = ()

    def cell(self, query: str, strategy: str, phase: Phase, size: Size, *, scale: float | None = None) -> Cell | None:
        wanted = (query, strategy, phase, size, self.scale if scale is None else scale)
        return next((c for c in self.cells if (c.query, c.strategy, c.phase, c.size, c.scale) == wanted), None)

    def baseline(self, query: str) -> Baseline | None:
        return next((baseline for baseline in self.baselines if baseline.query == query), None)

    @property
    def queries(self) -> tuple[str, ...]:
        return _distinct(cell.query for cell in self.cells)

    @property
    def strategies(self) -> tuple[str, ...]:
        return _distinct(cell.strategy for cell in self.cells)

    @property
    def sizes(self) -> tuple[Size, ...]:
        return _distinct(cell.size for cell in self.cells if cell.scale == self.scale)

    @property
    def small_scale(self) -> float | None:
        """The other scale factor at which changes were measured, for growth."""
        return next((cell.scale for cell in self.cells if cell.scale != self.scale), None)

    def wrong(self) -> Iterator[Cell | Book]:
        """What makes the run fail."""
        yield from (cell for cell in self.cells if cell.status in ("wrong", "failed"))
        yield from (book for book in self.books if book.status in ("wrong", "failed"))


def faster(run: Run, cell: Cell | None) -> float | None:
    """How many times faster a cell is than evaluating the query anew after every batch."""
    if cell is None or not cell.measured or (baseline := run.baseline(cell.query)) is None:
        return None
    return baseline.refresh / cell.per_batch


def growth(run: Run, query: str, strategy: str) -> float | None:
    """What a 1,000-row batch costs at this scale, in units of what it costs at a tenth.

    Per row and relation, weighted by the rows of each relation here: the mix of relations, which is not the same at
    both scales, does not count.
    """
    if (scale := run.small_scale) is None:
        return None
    large = run.cell(query, strategy, "changes", "1000")
    small = run.cell(query, strategy, "changes", "1000", scale=scale)
    if large is None or small is None or not (large.measured and small.measured):
        return None
    both = [(share, small.relations[name]) for name, share in large.relations.items() if name in small.relations]
    here = sum(share.seconds for share, _ in both)
    there = sum(share.rows * other.seconds / other.rows for share, other in both)
    return here / there if there else None


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def percentile(ordered: list[float], share: float) -> float:
    """The least of the sorted values that is not below `share` of them."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan


def write(run: Run, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(_rounded(asdict(run)), indent=1) + "\n")


def read(file: Path) -> Run:
    try:
        return _run(json.loads(file.read_text()))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"cannot read results from {str(file)!r}: {error}") from None


def _run(given: dict[str, Any]) -> Run:
    cells = tuple(
        Cell(**{**cell, "relations": {name: Share(**share) for name, share in cell["relations"].items()}})
        for cell in given.pop("cells")
    )
    return Run(
        place=Place(**given.pop("place")),
        cells=cells,
        baselines=tuple(Baseline(**baseline) for baseline in given.pop("baselines")),
        first_uses=tuple(FirstUse(**use) for use in given.pop("first_uses")),
        books=tuple(Book(**book) for book in given.pop("books")),
        **given,
    )


def _rounded(value: Any) -> Any:
    """Seven digits are more than a clock gives."""
    match value:
        case float():
            return float(f"{value:.7g}")
        case dict():
            return {key: _rounded(item) for key, item in value.items()}
        case list() | tuple():
            return [_rounded(item) for item in value]
        case _:
            return value


def _distinct(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))
