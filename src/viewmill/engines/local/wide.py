"""Stores in which a number needs more than 64 bits: rows in dictionaries, interpreted, slow and exact.

A pool has no place for such a number. A bucket that meets one goes on like this, as a mill does (`engine.py`), and as
long as it has been there. All that it holds is written as one text, and read again, with every batch.
"""

from __future__ import annotations

import decimal
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from viewmill.algebra.functions import EXACT, NAN
from viewmill.arrow import arrow_type
from viewmill.engines.interpreter import Interpreter
from viewmill.engines.interpreter.tables import Row, Rows, Table
from viewmill.engines.local.pending import Pending
from viewmill.engines.local.sources import Source
from viewmill.errors import DataError
from viewmill.program.nodes import Program, Store
from viewmill.types import Type

Declared = Callable[[str], Mapping[str, Source]]
"""What is known of the `let`s of a relation's trigger."""


class Wide:
    """The stores of a program, by their rows."""

    def __init__(self, program: Program, stores: Mapping[str, Mapping[Row, Any]], declared: Declared) -> None:
        """Stores that are not given are empty."""
        self._declared = declared
        self._slow = Interpreter()
        self._slow.program = program
        self._slow._tables = {
            name: Table(store.keys, dict(stores.get(name, {}))) for name, store in program.stores.items()
        }
        self._before: dict[str, Rows] = {}

    # --- batches

    def begin(self) -> None:
        self._slow._journal = {}
        self._before = {name: dict(table.rows) for name, table in self._slow._tables.items()}

    def rollback(self) -> None:
        self._slow._tables = {name: Table(self._slow._tables[name].fields, rows) for name, rows in self._before.items()}
        self.begin()

    def fire(
        self, batch: Sequence[Pending], lets: Mapping[str, Sequence[str]], weight: str
    ) -> dict[str, list[pa.RecordBatch]]:
        """Run triggers in order: the rows of these `let`s, their weights in a column of this name."""
        given: dict[str, list[pa.RecordBatch]] = {}
        slow = self._slow
        with decimal.localcontext(EXACT):
            for pending in batch:
                changes = {pending.relation: Table(slow.program.fields[pending.relation], pending.rows())}
                for statement in slow.program.triggers[pending.relation].statements:
                    slow._execute(statement, changes)
                declared = self._declared(pending.relation)
                for name in lets.get(pending.relation, ()):
                    given.setdefault(name, []).append(_columns(declared[name], changes[name].rows, weight))
            self._fire_above()
        return given

    def _fire_above(self) -> None:
        slow = self._slow
        for name, plan in slow.program.views.items():  # a view stands behind the views it reads
            if name in slow.program.triggers and (change := slow._view_change(plan)):
                fields = slow.program.fields[name]
                rows: Rows = {}
                for row, weight in change.items():
                    rows[row[: len(fields)]] = rows.get(row[: len(fields)], 0) + weight
                slow._fire({name: Table(fields, {row: n for row, n in rows.items() if n})})

    # --- reading

    def contents(self, view: str) -> Rows:
        return self._slow.contents(view)

    def change(self, view: str) -> Rows:
        """What the batch has done to a view so far."""
        return self._slow._view_change(self._slow.program.views[view])

    def check(self, view: str) -> None:
        """Raise what a reader would be told of, as far as the batch has changed the view."""
        self._slow._check_view(self._slow.program.views[view])

    def store(self, name: str) -> Rows:
        return self._slow.store(name)

    # --- as text

    def dump(self) -> bytes:
        tables = {name: self._told(name, table) for name, table in self._slow._tables.items()}
        return json.dumps(tables).encode()

    def _told(self, name: str, table: Table) -> list[list[str | None]]:
        types = _types(self._slow.program.stores[name])
        return [
            [_text(value, type_) for value, type_ in zip((*row, weight), types, strict=True)]
            for row, weight in table.rows.items()
        ]

    @classmethod
    def load(cls, data: bytes, program: Program, declared: Declared) -> Wide:
        """What was dumped, of the stores that the program has."""
        stores: dict[str, Rows] = {}
        for name, told in json.loads(data).items():
            if name in program.stores:
                types = _types(program.stores[name])
                rows = ([_value(text, type_) for text, type_ in zip(row, types, strict=True)] for row in told)
                stores[name] = {tuple(row): weight for *row, weight in rows}
        return cls(program, stores, declared)


def _types(store: Store) -> tuple[Type, ...]:
    return *store.types, store.weight


def _text(value: Any, type_: Type) -> str | None:
    """A value as text, from which it can be made again by its type."""
    match value:
        case None | str():
            return value
        case bytes():
            return value.hex()
        case float():
            return value.hex()
        case date():  # datetimes are dates
            return value.isoformat()
        case bool():
            return str(int(value))
        case int() if type_.is_floating:
            return float(value).hex()
        case int() | Decimal():
            return str(value)
        case _:
            raise DataError(f"cannot keep the value {value!r}")


def _value(text: str | None, type_: Type) -> Any:
    if text is None:
        return None
    match type_.name:
        case "string":
            return text
        case "binary":
            return bytes.fromhex(text)
        case "float" | "double":
            return NAN if text == "nan" else float.fromhex(text)  # one NaN, so that equal rows are found by identity
        case "date":
            return date.fromisoformat(text)
        case "timestamp":
            return datetime.fromisoformat(text)
        case "boolean":
            return text == "1"
        case "decimal":
            return Decimal(text)
        case _:
            return int(text)


def _columns(source: Source, rows: Mapping[Row, Any], weight: str) -> pa.RecordBatch:
    some = [(*row, n) for row, n in rows.items() if n]
    types = (*source.types, source.weight)
    names = (*source.keys, weight)
    schema = pa.schema([(name, arrow_type(type_)) for name, type_ in zip(names, types, strict=True)])
    try:
        columns = [
            pa.array([_fitting(row[i], type_) for row in some], arrow_type(type_)) for i, type_ in enumerate(types)
        ]
    except (pa.ArrowInvalid, OverflowError) as error:
        raise DataError(f"a sum of {source.name} does not fit its type: {error}") from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _fitting(value: Any, type_: Type) -> Any:
    """Arrow takes a number as one of its type only."""
    if value is None:
        return None
    if type_.is_decimal:
        return Decimal(value).quantize(Decimal(1).scaleb(-type_.scale), context=EXACT)
    return float(value) if type_.is_floating else value
