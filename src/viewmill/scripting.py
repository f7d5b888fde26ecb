"""What every mill can do, wherever its state lives: run SQL text, name its tables and views, explain them."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from threading import RLock
from typing import Any, Literal, assert_never

import pyarrow as pa

from viewmill.catalog import ColumnInfo, RelationInfo
from viewmill.definition import Definition
from viewmill.definitions import Definitions
from viewmill.distribute import distribute
from viewmill.distribute.nodes import Distributed
from viewmill.errors import UnsupportedError
from viewmill.explain import explain
from viewmill.program.nodes import EMPTY
from viewmill.result import Result
from viewmill.sql.parse import parse_script
from viewmill.sql.statements import (
    CreateTable,
    CreateView,
    Delete,
    Drop,
    Explain,
    Insert,
    ParsedQuery,
    Select,
    Statement,
    Update,
)
from viewmill.subscriptions import Subscriber
from viewmill.types import STRING
from viewmill.view import View
from viewmill.wording import not_too_deep


class Scripted(ABC):
    """Definitions, and the statements that change or read them."""

    def __init__(self, *, dialect: str = "spark") -> None:
        self._dialect = dialect
        self._definitions = Definitions()
        self._version = 0
        self._lock = RLock()  # who changes the mill, or reads it

    # --- SQL

    def sql(self, text: str) -> Result:
        """Run every statement of `text`, one by one; the answer of the last."""
        answers = list(self.script(text))
        return answers[-1] if answers else self._nothing()

    def script(self, text: str) -> Iterator[Result]:
        """Run every statement of `text`, giving each one's answer. All are parsed before the first is run."""
        with not_too_deep():
            statements = parse_script(text, self._dialect)
        for statement, words in statements:
            with not_too_deep(), self._guard(statement):
                answer = self._run(statement, words)
            yield answer

    def _guard(self, statement: Statement) -> AbstractContextManager[object]:
        """What a statement holds while it runs."""
        return self._lock

    def _run(self, statement: Statement, words: str) -> Result:
        match statement:
            case CreateTable() | CreateView() | Drop():
                definitions = self._defined(statement)
                if definitions is not self._definitions:
                    self._install(definitions, words)
            case Insert() | Delete() | Update():
                self._change(statement)
            case Select(query):
                return self._select(query)
            case Explain():
                return self._explain(statement)
            case _:
                assert_never(statement)
        return self._nothing()

    def _defined(self, statement: CreateTable | CreateView | Drop) -> Definitions:
        match statement:
            case CreateTable():
                return self._definitions.create_table(statement)
            case CreateView():
                return self._definitions.create_view(statement)
            case Drop():
                return self._definitions.drop(statement)
            case _:
                assert_never(statement)

    @abstractmethod
    def _install(self, definitions: Definitions, words: str) -> None:
        """Go on with other definitions; `words` is the statement that made them."""

    @abstractmethod
    def _change(self, statement: Insert | Delete | Update) -> None:
        """Carry out a statement that changes rows."""

    @abstractmethod
    def _select(self, query: ParsedQuery) -> Result:
        """Answer an ad-hoc query."""

    def _nothing(self) -> Result:
        return Result((), (), self._version)

    # --- what there is

    @property
    def tables(self) -> Mapping[str, RelationInfo]:
        """Tables and streams by name."""
        return {name: table.info for name, table in self._definitions.tables.items()}

    @property
    def views(self) -> tuple[str, ...]:
        return tuple(self._definitions.views)

    @property
    def version(self) -> int:
        """The number of the last committed batch."""
        return self._version

    def view(self, name: str) -> View:
        return View(self._definitions.view(name).name, self)

    @abstractmethod
    def read(self, name: str) -> Result:
        """All rows of a view, as its ORDER BY and LIMIT say."""

    @abstractmethod
    def read_arrow(self, name: str) -> pa.Table:
        """The same as an Arrow table."""

    def read_frame(self, name: str) -> Any:
        """The same as a Spark DataFrame."""
        raise UnsupportedError("this mill is not on Spark", hint="use to_arrow() or to_pandas() instead of to_df()")

    def write(
        self, name: str, target: str | os.PathLike[str], mode: Literal["versioned", "changes"], keep: int
    ) -> Callable[[], None]:
        """Write the view to a place, now and after every batch; returns what ends this."""
        raise UnsupportedError(
            "this mill is not on Spark, and does not write views",
            hint="follow the view with subscribe(), or write what to_arrow() gives",
        )

    @abstractmethod
    def follow(self, name: str, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` after every batch that changes the view; returns what ends this."""

    def explain(self, name: str, *, stage: str = "program") -> str:
        """A view at one stage of its compilation: sql, bound, algebra, delta, program, placed, blocks or code."""
        return self._explained(self._definitions.view(name), stage)

    def _explained(self, definition: Definition, stage: str) -> str:
        return explain(definition, self._definitions, stage, partial(self._distributed, definition))

    def _distributed(self, definition: Definition) -> Distributed:
        """What a cluster would do for a view or query, if there were no other."""
        definitions = self._definitions
        return distribute(definitions.compiled(definition, EMPTY), definitions.kept, known=self._sizes())

    @abstractmethod
    def _sizes(self) -> dict[str, int]:
        """The rows of tables that are known."""

    def _explain(self, statement: Explain) -> Result:
        stage = statement.stage or "program"
        if isinstance(statement.target, str):
            text = self.explain(statement.target, stage=stage)
        else:
            text = self._explained(self._definitions.query(statement.target), stage)
        return Result((ColumnInfo("plan", STRING, nullable=False),), ((text,),), self._version)
