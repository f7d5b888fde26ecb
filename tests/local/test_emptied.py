"""`store := 0` empties a store, in compiled code as in the interpreter. Changes that wait for others are taken so."""

from __future__ import annotations

import sys

import pytest

from viewmill.algebra.build import product
from viewmill.algebra.nodes import DeltaRelation, Relation, Value
from viewmill.algebra.scalars import Const
from viewmill.catalog import Catalog, ColumnInfo, RelationInfo
from viewmill.engines.local import engine
from viewmill.engines.local.engine import LocalEngine
from viewmill.engines.local.pending import PendingRows
from viewmill.program.nodes import Program, Statement, Store, Trigger
from viewmill.types import BIGINT

NOTHING = Value(Const(0))


def relation(name: str, *columns: str) -> RelationInfo:
    return RelationInfo(name, tuple(ColumnInfo(column, BIGINT) for column in columns))


def waiting(*keys: str) -> tuple[Program, Catalog]:
    """Rows of `r` wait in `w` until a row of `tick` moves them into `s`."""
    change, kept = DeltaRelation("r", keys, keys), Relation("w", keys, keys)
    types = (BIGINT,) * len(keys)
    stores = {name: Store(name, keys, Relation("r", keys, keys), types, BIGINT) for name in ("w", "s")}
    arrive = Statement("w", keys, "+=", change, "recursive", "")
    move = Statement("s", keys, "+=", product(DeltaRelation("tick", (), ()), kept), "recursive", "")
    empty = Statement("w", keys, ":=", NOTHING, "reevaluate", "")
    triggers = {"r": Trigger("r", (arrive,)), "tick": Trigger("tick", (move, empty))}
    program = Program(stores, triggers, {}, {"r": keys, "tick": ()})
    return program, Catalog({"r": relation("r", *keys), "tick": relation("tick", "t")})


@pytest.mark.parametrize("after", [sys.maxsize, -1, 3], ids=["interpreted", "compiled", "midway"])
@pytest.mark.parametrize("keys", [("a",), ("a", "b"), ()])
def test_a_store_is_emptied(monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...], after: int) -> None:
    monkeypatch.setattr(engine, "COMPILE_AFTER", after)
    program, catalog = waiting(*keys)
    one = LocalEngine()
    one.install(program, catalog, {})
    total: dict[tuple[int, ...], int] = {}
    for number in range(4):
        rows = {(number + i,) * len(keys): i + 1 for i in range(3)}
        batch = [PendingRows(catalog.relations["r"], rows), PendingRows(catalog.relations["tick"], {(0,): 1})]
        one.apply_pending(batch)
        for row, count in rows.items():
            total[row] = total.get(row, 0) + count
        assert one.store("w") == {}
        assert one.store("s") == total
