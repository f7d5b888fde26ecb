"""The demo from beginning to end."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Literal

from rich.console import Console

from viewmill.bench import data
from viewmill.bench.orders import Orders
from viewmill.bench.queries import TABLES, tpch_queries
from viewmill.demo.places import Embedded, OnSpark, Place
from viewmill.demo.screen import Screen

VIEWS = {
    "q01": "Prices by status",
    "q03": "Largest orders not yet shipped",
    "q05": "Revenue from local suppliers",
    "q06": "What discounts cost",
    "q12": "Late orders by way of shipping",
    "q18": "Customers with large orders",
}
LIVE = ("q05", "q12")


def run(
    console: Console,
    *,
    engine: Literal["spark", "local"],
    scale: float,
    batches: int,
    share: float,
    folder: Path | None,
) -> bool:
    """Whether all views were right in the end."""
    chosen = [tpch_queries()[name] for name in VIEWS]
    screen = Screen(console, batches, {name: VIEWS[name] for name in LIVE})
    with console.status(f"generating TPC-H data, scale factor {scale:g}"):
        orders = Orders(data.load(data.ensure(scale, folder or data.default_folder())))
    total = sum(orders.start[name].num_rows for name in TABLES)
    with console.status("starting Spark" if engine == "spark" else "starting"):
        place: Place = OnSpark() if engine == "spark" else Embedded()
    screen.say(f"Viewmill, {place.name}: {len(chosen)} views over TPC-H tables of {total:,} rows.")
    for query in chosen:
        screen.say(f"  {query.name}  {VIEWS[query.name]}")
    with console.status("compiling views, loading tables"):
        start = perf_counter()
        place.define(chosen)
        place.fill(orders.start)
    screen.say(f"Views compiled and tables loaded in {perf_counter() - start:.1f} s.\n")
    refreshes, changed = _stream(screen, place, orders, batches, share)
    with console.status(f"checking every view with {place.oracle}"):
        found = place.check(chosen, orders.tables)
    screen.verdict(place.oracle, found, {query.name: len(place.view(query.name)) for query in chosen})
    screen.summary(place.oracle, changed / batches / total, refreshes, sum(s for _, s in found.values()), len(chosen))
    return not any(wrong for wrong, _ in found.values())


def _stream(screen: Screen, place: Place, orders: Orders, batches: int, share: float) -> tuple[list[float], int]:
    """The seconds of each batch, and how many rows changed in all."""
    refreshes, rows = [], 0
    with screen.streaming():
        for number, changes in enumerate(orders.batches(batches, share), 1):
            start = perf_counter()
            place.take(changes)
            refreshes.append(perf_counter() - start)
            rows += sum(changed.rows for changed in changes.values())
            screen.batch(number, refreshes[-1], changes, {name: place.view(name).read() for name in LIVE})
    return refreshes, rows
