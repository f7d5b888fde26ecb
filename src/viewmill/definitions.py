"""What exists in a mill: tables, streams, views, and the program that keeps the views.

Immutable: CREATE and DROP give a new value or raise, so one that is refused changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from viewmill.algebra.schema import Names
from viewmill.cache import remembered
from viewmill.catalog import Catalog
from viewmill.definition import Definition, define
from viewmill.distribute.asked import places_of_output
from viewmill.distribute.nodes import Buckets
from viewmill.errors import BindError, Span, UnsupportedError
from viewmill.intake import Row
from viewmill.materialize.compile import ViewSpec, add_view, drop_view
from viewmill.options import maintain_of
from viewmill.program.nodes import EMPTY, Program
from viewmill.sql.bind import bind, bind_delete, bind_insert, bind_update
from viewmill.sql.bound import BoundView
from viewmill.sql.partition import partition_columns
from viewmill.sql.statements import CreateTable, CreateView, Delete, Drop, Insert, ParsedQuery, Update
from viewmill.tables import BaseTable
from viewmill.wording import nearest, quoted, titled


@dataclass(frozen=True, slots=True)
class Definitions:
    """`tables` holds streams, too. The tables' rows change with every batch; which tables there are does not."""

    catalog: Catalog = field(default_factory=Catalog)
    tables: dict[str, BaseTable] = field(default_factory=dict)
    views: dict[str, Definition] = field(default_factory=dict)
    program: Program = EMPTY

    def table(self, name: str, verb: str) -> BaseTable:
        """The table or stream to `verb`."""
        key = name.lower()
        if key in self.views:
            raise BindError(
                f"cannot {verb} view {quoted(key)}: a view is filled by its query",
                hint=f"change what it reads: {', '.join(sorted(self.views[key].reads)) or 'nothing'}",
            )
        if key not in self.tables:
            hint = nearest(key, self.tables, "the tables and streams are")
            raise BindError(f"there is no table {quoted(name)}", hint=hint)
        return self.tables[key]

    def view(self, name: str) -> Definition:
        definition = self.views.get(name.lower())
        if definition is None:
            hint = nearest(name.lower(), self.views, "the views are")
            raise BindError(f"there is no view {quoted(name)}", hint=hint)
        return definition

    @property
    def kept(self) -> Catalog:
        """The relations as programs read them."""
        return Catalog({**self.catalog.relations, **{name: view.kept for name, view in self.views.items()}})

    @property
    def rows(self) -> dict[str, dict[Row, int]]:
        return {name: table.rows for name, table in self.tables.items()}

    def rows_after(self, changes: Mapping[str, Mapping[Row, int]]) -> dict[str, dict[Row, int]]:
        """The rows that the tables will have once they take these changes."""
        after = {name: dict(rows) for name, rows in self.rows.items()}
        for name, change in changes.items():
            for row, weight in change.items():
                after[name][row] = after[name].get(row, 0) + weight
        return {name: {row: count for row, count in rows.items() if count} for name, rows in after.items()}

    def create_table(self, statement: CreateTable) -> Definitions:
        info = statement.info
        if statement.if_not_exists and info.name in self.catalog.relations:
            return self
        self._check_free(info.name, statement.span)
        tables = {**self.tables, info.name: BaseTable(info)}
        return replace(self, catalog=self.catalog.with_relation(info), tables=tables)

    def create_view(self, statement: CreateView) -> Definitions:
        if statement.if_not_exists and statement.name in self.catalog.relations:
            return self
        if statement.or_replace and statement.name in self.views:
            self._check_unread(statement.name, "replace", statement.span)
            return self._without_view(statement.name).create_view(statement)
        self._check_free(statement.name, statement.span)
        definition = self._define(statement)
        self._check_complete(definition, statement.span)
        program = self.compiled(definition, self.program)
        _check_partition(statement, program)
        return replace(
            self,
            catalog=self.catalog.with_relation(definition.info),
            views={**self.views, definition.name: definition},
            program=program,
        )

    def drop(self, statement: Drop) -> Definitions:
        info = self.catalog.get(statement.name)
        if info is None and statement.if_exists:
            return self
        if info is None:
            known = [name for name, other in self.catalog.relations.items() if other.kind == statement.kind]
            raise BindError(
                f"there is no {statement.kind} {quoted(statement.name)}",
                span=statement.span,
                hint=nearest(statement.name, known, f"the {statement.kind}s are"),
            )
        if info.kind != statement.kind:
            raise BindError(
                f"{quoted(info.name)} is a {info.kind}, not a {statement.kind}",
                span=statement.span,
                hint=f"write DROP {info.kind.upper()} {info.name}",
            )
        self._check_unread(info.name, "drop", statement.span)
        if info.kind == "view":
            return self._without_view(info.name)
        tables = {name: table for name, table in self.tables.items() if name != info.name}
        return replace(self, catalog=self.catalog.without(info.name), tables=tables)

    def query(self, query: ParsedQuery) -> Definition:
        """An ad-hoc query, as a view that nobody keeps."""
        return self._unnamed(query, bind(query, self.catalog))

    def changed_rows(self, statement: Insert | Delete | Update) -> Definition:
        """The rows that a statement changes, as a query."""
        match statement:
            case Insert(_, _, query, _):
                return self._unnamed(query, bind_insert(statement, self.catalog))
            case Delete(_, query, _):
                return self._unnamed(query, bind_delete(statement, self.catalog))
            case Update(_, query, _):
                return self._unnamed(query, bind_update(statement, self.catalog))
            case _:
                assert_never(statement)

    def _unnamed(self, query: ParsedQuery, bound: BoundView) -> Definition:
        name = Names(frozenset(self.catalog.relations)).fresh("query")
        return define(name, query.text, bound, views=self.views)

    @property
    def sizes(self) -> dict[str, int]:
        """The rows of the tables that keep them here."""
        return {name: len(table.rows) for name, table in self.tables.items() if table.keeps_rows}

    def compiled(self, definition: Definition, program: Program) -> Program:
        """`program` with a view added."""
        sizes = self.sizes
        spec = ViewSpec(definition.name, definition.expr, definition.fields, definition.maintain)
        if any(sizes.values()):
            return add_view(program, spec, self.kept, sizes)
        made_from = (program, spec, self.kept, sizes)  # the same for everybody who starts with empty tables
        return remembered("program", made_from, Program, lambda: add_view(program, spec, self.kept, sizes))

    def _define(self, statement: CreateView) -> Definition:
        maintain = maintain_of(statement.options)
        bound = bind(statement.query, self.catalog, statement.name, columns=statement.columns)
        definition = define(statement.name, statement.query.text, bound, maintain, views=self.views)
        names = [column.name for column in definition.columns]
        by = partition_columns(statement.partition_by, names, f"view {quoted(statement.name)}")
        return replace(definition, partition_by=by)

    def _without_view(self, name: str) -> Definitions:
        return replace(
            self,
            catalog=self.catalog.without(name),
            views={other: view for other, view in self.views.items() if other != name},
            program=drop_view(self.program, name),
        )

    def _check_free(self, name: str, span: Span) -> None:
        taken = self.catalog.get(name)
        if taken is not None:
            raise BindError(
                f"the name {quoted(name)} is taken by a {taken.kind}",
                span=span,
                hint=f"choose another name, or DROP {taken.kind.upper()} {name} first",
            )

    def _check_unread(self, name: str, verb: str, span: Span) -> None:
        readers = [view.name for view in self.views.values() if name in view.reads]
        if readers:
            who = f"view {quoted(readers)} needs it" if len(readers) == 1 else f"views {quoted(readers)} need it"
            raise BindError(
                f"cannot {verb} {titled(self.catalog.relations[name])}: {who}",
                span=span,
                hint=f"drop {', '.join(readers)} first",
            )

    def _check_complete(self, definition: Definition, span: Span) -> None:
        """A view must see all rows of what it reads."""
        for name in sorted(definition.reads):
            table = self.tables.get(name)
            if table is not None and table.touched and not table.keeps_rows:
                raise UnsupportedError(
                    f"view {quoted(definition.name)} would miss the rows that {titled(table.info)} has already had",
                    span=span,
                    hint="create views over what is not stored before its first batch",
                )


def _check_partition(statement: CreateView, program: Program) -> None:
    """A view can be spread by what its stores have as keys, and not by what is computed from what they hold."""
    output = program.views[statement.name].output
    by = tuple(column.name for column in statement.partition_by)
    if not by or any(places_of_output(output, Buckets(by))):
        return
    computed = [
        column for column in statement.partition_by if not any(places_of_output(output, Buckets((column.name,))))
    ]
    wrong = computed[0] if computed else statement.partition_by[0]
    raise UnsupportedError(
        f"cannot partition view {quoted(statement.name)} by {quoted(wrong.name)}: "
        "it is computed from what is kept, and nothing is kept by it",
        span=wrong.span,
        hint="name columns that the view groups by, or leave PARTITION BY out",
    )
