"""The bound query: SQL with every name resolved and every type known. No sqlglot in it.

Every column of every table reference, derived table and aggregate has its own variable, unique in the
whole query, subqueries included. So a correlated reference is nothing special: it is a `Column` whose variable
belongs to an outer query. A CTE used twice is bound twice, with different variables.

Implicit conversions are explicit: arguments are wrapped in `Cast` where Spark would convert, and a decimal
operation whose Spark type rounds is wrapped in a `Cast` to that type. Comparisons have sides of one type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeAlias

from viewmill.types import BOOLEAN, Type

# --- expressions: each has a type, and `nullable` says whether it can be NULL


@dataclass(frozen=True, slots=True)
class Column:
    """A variable in scope: a table's column, a group key, an aggregate's result."""

    var: str
    type: Type
    nullable: bool


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A constant: written as it is, or computed from others. Only what is written takes part in decimal arithmetic
    as a decimal of just its digits; that apart, the two are the same.
    """

    value: object
    type: Type
    is_computed: bool = False

    @property
    def nullable(self) -> bool:
        return self.value is None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and (self.type, repr(self.value)) == (other.type, repr(other.value))

    def __hash__(self) -> int:
        return hash((self.type, repr(self.value)))


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or function of `algebra.functions`, e.g. `+`, `and`, `like`, `case`, `substring`."""

    op: str
    args: tuple[BoundExpr, ...]
    type: Type
    nullable: bool


@dataclass(frozen=True, slots=True)
class Cast:
    arg: BoundExpr
    type: Type

    @property
    def nullable(self) -> bool:
        return self.arg.nullable


@dataclass(frozen=True, slots=True)
class ScalarQuery:
    """`(SELECT ...)` as a value: one column; NULL if there is no row, an error if there are several."""

    query: Query
    type: Type

    @property
    def nullable(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class ExistsQuery:
    """`EXISTS (SELECT ...)`: never NULL."""

    query: Query

    @property
    def type(self) -> Type:
        return BOOLEAN

    @property
    def nullable(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class InQuery:
    """`(needles) IN (SELECT ...)`, three-valued. NOT IN is `Call("not", (InQuery,))`."""

    needles: tuple[BoundExpr, ...]
    query: Query

    @property
    def type(self) -> Type:
        return BOOLEAN

    @property
    def nullable(self) -> bool:
        return any(needle.nullable for needle in self.needles) or any(c.nullable for c in self.query.columns)


BoundExpr: TypeAlias = Column | Literal | Call | Cast | ScalarQuery | ExistsQuery | InQuery

AggregateFunction: TypeAlias = OneOf[
    "count", "sum", "avg", "min", "max", "stddev_samp", "stddev_pop", "var_samp", "var_pop"
]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`var := function([DISTINCT] arg) FILTER (WHERE filter)`; `arg` is None for COUNT(*)."""

    var: str
    function: AggregateFunction
    arg: BoundExpr | None
    distinct: bool
    filter: BoundExpr | None
    type: Type
    nullable: bool


# --- sources: what stands in FROM


@dataclass(frozen=True, slots=True)
class Field:
    """Field `name` of a table as the variable `var`."""

    name: str
    var: str
    type: Type
    nullable: bool


@dataclass(frozen=True, slots=True)
class Table:
    """A base relation or a view. Only the fields that the query uses are listed."""

    name: str
    alias: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Derived:
    """A subquery in FROM; its columns are `query.columns`."""

    query: Query
    alias: str


@dataclass(frozen=True, slots=True)
class Join:
    """`semi` and `anti` produce the left side only; `cross` has `on` None; a comma in FROM is `cross`."""

    kind: OneOf["inner", "left", "right", "full", "cross", "semi", "anti"]
    left: Source
    right: Source
    on: BoundExpr | None


Source: TypeAlias = Table | Derived | Join

# --- queries


@dataclass(frozen=True, slots=True)
class Output:
    """One output column: shown as `name`, known inside as `var`, computed by `expr`."""

    name: str
    var: str
    expr: BoundExpr

    @property
    def type(self) -> Type:
        return self.expr.type

    @property
    def nullable(self) -> bool:
        return self.expr.nullable


@dataclass(frozen=True, slots=True)
class GroupKey:
    """`var := expr`. In `having` and `outputs` the key stands as `Column(var)`."""

    var: str
    expr: BoundExpr


@dataclass(frozen=True, slots=True)
class Select:
    """One SELECT block.

    `group` is None where there is neither GROUP BY nor an aggregate; `()` is one group that always exists.
    With `group` not None, `having` and `outputs` see only group keys and aggregates, by their variables
    (subqueries in them may be correlated with those).
    `source` is None for a SELECT without FROM: one row.
    """

    source: Source | None
    where: BoundExpr | None
    group: tuple[GroupKey, ...] | None
    aggregates: tuple[Aggregate, ...]
    having: BoundExpr | None
    outputs: tuple[Output, ...]
    distinct: bool

    @property
    def columns(self) -> tuple[Field, ...]:
        return tuple(Field(o.name, o.var, o.type, o.nullable) for o in self.outputs)


@dataclass(frozen=True, slots=True)
class SetOperation:
    """UNION / INTERSECT / EXCEPT [ALL]. `columns` are new variables; both sides have the columns' types."""

    kind: OneOf["union", "intersect", "except"]
    all: bool
    left: Query
    right: Query
    columns: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Values:
    """`VALUES (1, 'a'), (2, NULL)`"""

    rows: tuple[tuple[BoundExpr, ...], ...]
    columns: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class SortKey:
    """Sort by output column number `column` (from 0)."""

    column: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class Limited:
    """`query ORDER BY order LIMIT limit OFFSET offset` inside another query.

    The last `hidden` columns of `query` exist only to sort by. Rows that tie are told apart by all columns of `query`.
    """

    query: Query
    hidden: int
    order: tuple[SortKey, ...]
    limit: int | None
    offset: int

    @property
    def columns(self) -> tuple[Field, ...]:
        return self.query.columns[: len(self.query.columns) - self.hidden]


Query: TypeAlias = Select | SetOperation | Values | Limited


@dataclass(frozen=True, slots=True)
class BoundView:
    """A whole view. The last `hidden` columns of `query` exist only to sort by and are not shown."""

    query: Query
    hidden: int
    order: tuple[SortKey, ...]
    limit: int | None
    offset: int
