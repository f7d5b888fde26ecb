"""`viewmill demo`: a small shop, one view, four batches, and the program that keeps up with them."""

from __future__ import annotations

from rich.console import Console
from rich.rule import Rule
from rich.syntax import Syntax

from viewmill.session import Mill
from viewmill.subscriptions import Changes

SETUP = """
CREATE TABLE customers (id INT PRIMARY KEY, name STRING, region STRING);
CREATE TABLE orders (id INT PRIMARY KEY, customer INT, price DECIMAL(10, 2));
"""

VIEW = """
CREATE MATERIALIZED VIEW revenue AS
SELECT c.region, count(*) AS orders, sum(o.price) AS total, avg(o.price) AS average
FROM orders o JOIN customers c ON o.customer = c.id
GROUP BY c.region
ORDER BY total DESC
"""


def run(console: Console) -> None:
    mill = Mill()
    console.print(Syntax((SETUP + VIEW).strip(), "sql", theme="ansi_dark", background_color="default"))
    mill.sql(SETUP)
    mill.sql(VIEW)
    view = mill.view("revenue")
    view.subscribe(lambda changes: _print_changes(console, changes))

    def step(title: str) -> None:
        console.print(Rule(title, style="dim"))

    step("customers and orders arrive in one batch")
    with mill.batch() as batch:
        batch.insert("customers", [(1, "Ada", "north"), (2, "Bo", "south"), (3, "Cy", "south")])
        batch.insert("orders", [(10, 1, "120.00"), (11, 2, "80.50"), (12, 3, "19.50"), (13, 2, "40.00")])
    console.print(view.read())

    step("an order changes its price")
    mill.update("orders", [(10, 1, "99.90")])

    step("a customer moves: all their orders change region")
    mill.update("customers", [(2, "Bo", "west")])

    step("an order is cancelled")
    mill.delete("orders", [{"id": 12}])
    console.print(view.read())

    step("the program that did it: mill.explain('revenue')")
    console.print(mill.explain("revenue"), markup=False, highlight=False, soft_wrap=True)

    step("how it is maintained, and why: mill.status()")
    console.print(mill.status())
    console.print(f"mill.verify('revenue'): {mill.verify('revenue')}")


def _print_changes(console: Console, changes: Changes) -> None:
    for sign, style, rows in (("-", "red", changes.removed), ("+", "green", changes.added)):
        for row in rows:
            console.print(
                f"  version {changes.version}  {sign} {', '.join(map(str, row))}", style=style, highlight=False
            )
