"""Random databases, batches and expressions for the laws.

Everything is small and close together, so that rows meet: three relations that share columns, values NULL, 0, 1 and 2,
at most six rows each. Expressions are closed (no inputs) and well-formed; every variable they bind is bound once, but
for those that join or that the terms of a sum have in common. Choices are listed simplest first: so they shrink.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product as iter_product

from hypothesis import strategies as st

from viewmill.algebra.build import agg_sum, assign, exists, neg, product, sum_, test, top_k
from viewmill.algebra.evaluate import Contents, collect
from viewmill.algebra.nodes import ONE, ZERO, AggSum, DeltaRelation, Expr, Extreme, Lift, Relation, SortBy, Value
from viewmill.algebra.scalars import NULL, Call, Cast, Const, Scalar, Var
from viewmill.algebra.schema import Names, inputs, rename, schema
from viewmill.types import INT, STRING, decimal

RELATIONS = {"R": ("a", "b"), "S": ("b", "c"), "T": ("c", "d")}
DOMAIN = (1, 2, 0, None)

Databases = dict[str, Contents]

# Made once: an expression takes dozens of draws, and most of the time goes into making their strategies.
_INDEX = [st.integers(0, max(size - 1, 0)) for size in range(100)]


# --- data


def _rows(fields: tuple[str, ...], weights: tuple[int, ...], least: int, most: int) -> st.SearchStrategy[Contents]:
    weighted = st.sampled_from(
        [(row, weight) for weight in weights for row in iter_product(DOMAIN, repeat=len(fields))]
    )
    some = st.lists(weighted, min_size=least, max_size=most)
    return some.map(lambda pairs: Contents(fields, collect(pairs)))


def databases() -> st.SearchStrategy[Databases]:
    """Every relation with up to six rows, some of them twice."""
    # Left alone, lists are mostly short, and products over short relations mostly empty.
    return st.one_of(_filled(0), _filled(3), _filled(3))


def _filled(least: int) -> st.SearchStrategy[Databases]:
    return st.fixed_dictionaries({name: _rows(fields, (1, 2), least, 6) for name, fields in RELATIONS.items()})


def batches(*changed: str) -> st.SearchStrategy[Databases]:
    """Changes of either sign to the relations named (all, if none is), whatever the database holds."""
    return st.fixed_dictionaries({name: _rows(RELATIONS[name], (1, -1, 2, -2), 0, 4) for name in changed or RELATIONS})


@st.composite
def changes(draw: st.DrawFn, *changed: str) -> tuple[Databases, Databases]:
    """A database and a batch that it can take: inserts, and deletions of rows that are there, often of the same row."""
    db = draw(databases())
    batch: Databases = {}
    for name in changed or RELATIONS:
        held = db[name]
        inserted = draw(_rows(held.fields, (1, 2), 0, 3))
        deleted = {row: -draw(_INDEX[int(count) + 1]) for row, count in held.rows.items()}
        batch[name] = Contents(held.fields, collect((*inserted.rows.items(), *deleted.items())))
    return db, batch


# --- expressions


@st.composite
def exprs(draw: st.DrawFn, wanted: tuple[str, ...] | None = None, *, deltas: bool = False, depth: int = 2) -> Expr:
    """A closed expression over R(a, b), S(b, c) and T(c, d) that produces the variables `wanted` (in any order).

    `deltas` lets it read pending batches too; `depth` bounds how far lifts, extremes, Exists and TopK are nested.
    """
    if wanted is None:
        wanted = draw(st.sampled_from(((), ("x",), ("x", "y"))))
    return _Maker(draw, Names(frozenset(wanted)), deltas).query(wanted, (), depth)


@st.composite
def limited(draw: st.DrawFn, *, deltas: bool = False) -> Expr:
    """A closed expression over rows and, for each of them, the first rows of a query that most often knows them.

    In `exprs` these are one thing among many, and a TopK that is correlated, changes and matters would be a rare find.
    """
    wanted = draw(st.sampled_from((("x",), ("x", "y"))))
    return _Maker(draw, Names(frozenset(wanted)), deltas).limited(wanted)


@dataclass(frozen=True)
class _Maker:
    draw: st.DrawFn
    names: Names
    deltas: bool

    def pick(self, options: Sequence[str]) -> str:
        return options[self.draw(_INDEX[len(options)])]

    def chance(self, *, of: int = 2) -> bool:
        return self.draw(_INDEX[of]) == of - 1

    def query(self, wanted: tuple[str, ...], scope: tuple[str, ...], depth: int) -> Expr:
        """An expression of schema `wanted` whose inputs are in `scope`."""
        kinds = ["join"]
        if depth > 0:
            kinds += ["join", "union", "difference", "set", "top"]
            kinds += ["grouped", "grouped"] if len(wanted) >= 2 else []
        match self.pick(kinds):
            case "union":
                return sum_(self.query(wanted, scope, depth - 1) for _ in range(2))
            case "difference":
                return sum_((self.query(wanted, scope, depth - 1), neg(self.query(wanted, scope, depth - 1))))
            case "set":
                return exists(self.query(wanted, scope, depth - 1))
            case "top":
                return self.top(self.query(wanted, scope, depth - 1))
            case "grouped":
                return self.grouped(wanted, scope, depth - 1)
            case _:
                return self.join(wanted, scope, depth)

    def join(self, wanted: tuple[str, ...], scope: tuple[str, ...], depth: int) -> Expr:
        """Relations, then what depends on them, then `Sum` to what is wanted."""
        missing = list(wanted)
        bound: list[str] = []
        parts: list[Expr] = []
        for _ in range((1, 2, 1, 2, 3)[self.draw(_INDEX[5])]):
            parts.append(self.relation(bound, missing))
        if scope and self.chance():
            parts.append(self.correlation(bound, scope))
        for _ in range(self.draw(_INDEX[3])):
            parts.extend(self.extra(bound, scope, depth))
        for name in missing:
            parts.append(assign(name, self.scalar((*bound, *scope))))
        body = product(*parts)
        if set(schema(body)) == set(wanted) and self.chance():
            return body
        return agg_sum(wanted, body)

    def relation(self, bound: list[str], missing: list[str]) -> Expr:
        """A relation some of whose fields join with `bound`, some give `missing` variables, some are left out."""
        name = self.pick(tuple(RELATIONS))
        fields = [field for field in RELATIONS[name] if not self.chance(of=5)]
        before = bound if self.chance(of=10) else tuple(bound)  # R(a: x, b: x) is seldom
        vars_ = tuple(self.column(field, before, bound, missing) for field in fields)
        node = DeltaRelation if self.deltas and self.chance() else Relation
        return node(name, tuple(fields), vars_)

    def column(self, field: str, before: Sequence[str], bound: list[str], missing: list[str]) -> str:
        kinds = ["new"] + (["wanted"] if missing else []) + (["join"] if before else [])
        match self.pick(kinds):
            case "join":
                return self.pick(before)
            case "wanted":
                var = missing.pop(0)
            case _:
                var = self.names.fresh(field)
        bound.append(var)
        return var

    def correlation(self, bound: list[str], scope: tuple[str, ...]) -> Expr:
        """By identity, by equality or by order."""
        outer = Var(self.pick(scope))
        if not bound:
            return Value(outer)
        inner = self.pick(bound)
        op = self.pick((":=", "=", "<", ">=", "<=>"))
        return assign(inner, outer) if op == ":=" else test(Call(op, (Var(inner), outer)))

    def extra(self, bound: list[str], scope: tuple[str, ...], depth: int) -> list[Expr]:
        """One more factor, or two. It may read all variables in `bound`, and adds to them what it binds."""
        visible = (*bound, *scope)
        nested = ["lift", "extreme", "exists", "semi", "anti", "union", "top"] if depth > 0 else []
        match self.pick(["test", "value", "assign", *nested]):
            case "test":
                return [test(self.condition(visible))]
            case "value":
                weight = Value(self.scalar(visible))
                return [weight if weight != ZERO else Value(Const(2))]  # a product with ZERO has no schema
            case "assign":
                scalar = self.scalar(visible)
                return [assign(self.bind("e", bound), scalar)]
            case "lift":
                lift = Lift(self.names.fresh("n"), self.query((), visible, depth - 1))
                return [lift, self.use(lift.var, bound, visible)]
            case "extreme":
                of = self.names.fresh("m")
                body = self.query((of,), visible, depth - 1)
                extreme = Extreme(self.names.fresh("m"), "min" if self.chance() else "max", of, body)
                return [extreme, self.use(extreme.var, bound, visible)]
            case "exists":
                return [exists(self.query((), visible, depth - 1))]
            case "anti":
                return [sum_((ONE, neg(exists(self.query((), visible, depth - 1)))))]
            case "semi":
                key = (self.pick(bound),) if bound else ()
                return [exists(self.query(key, scope, depth - 1))]
            case "top":
                return [self.lateral(bound, scope, depth)]
            case _:
                return [sum_((Value(self.scalar(visible)), self.query((), visible, depth - 1)))]

    def limited(self, wanted: tuple[str, ...]) -> Expr:
        missing = list(wanted)
        bound: list[str] = []
        parts = [self.relation(bound, missing) for _ in range(self.draw(_INDEX[2]) + 1)]
        parts += self.first_rows(bound)
        if bound and self.chance():  # what is outside and what is picked may have to be the same
            left, right = Var(self.pick(bound)), Var(self.pick(bound))
            parts.append(test(Call("=", (left, right))))
        parts += [assign(name, self.scalar(tuple(bound))) for name in missing]
        return agg_sum(wanted, product(*parts))

    def first_rows(self, bound: list[str]) -> list[Expr]:
        """The first rows as rows to join with, as a value, as a number, or as a set."""
        columns: list[str] = []
        rows = [self.relation(columns, []) for _ in range(self.draw(_INDEX[2]) + 1)]
        if bound and not self.chance(of=4):
            rows.append(self.correlation(columns, tuple(bound)))
        if columns and self.chance(of=3):
            rows.append(test(self.condition((*columns, *bound))))
        kept = tuple(name for name in dict.fromkeys(columns) if not self.chance(of=3))
        top = self.top(agg_sum(kept, product(*rows)))
        match self.pick(("value", "rows", "count", "set") if kept else ("count",)):
            case "value":
                value = Extreme(self.names.fresh("m"), "min" if self.chance() else "max", self.pick(kept), top)
                bound.append(value.var)
                return [value]
            case "count":
                tied = [assign(self.pick(kept), Var(self.pick(bound)))] if kept and bound and self.chance() else []
                number = Lift(self.names.fresh("n"), agg_sum((), product(top, *tied)))
                bound.append(number.var)
                return [number]
            case kind:
                joined = self.pick(bound) if bound and self.chance() else None
                if joined and joined not in inputs(top):
                    top, kept = rename(top, {kept[0]: joined}), (joined, *kept[1:])
                bound.extend(name for name in kept if name not in bound)
                return [exists(top) if kind == "set" else top]

    def lateral(self, bound: list[str], scope: tuple[str, ...], depth: int) -> Expr:
        """The first rows for each row so far: one variable may join, another is new, the rest may be inputs."""
        joined = self.pick(bound) if bound and self.chance() else None
        visible = tuple(name for name in (*bound, *scope) if name != joined)
        wanted = (*((joined,) if joined else ()), self.bind("t", bound))
        return self.top(self.query(wanted, visible, depth - 1))

    def top(self, body: Expr) -> Expr:
        """Some of the rows, in an order over all variables."""
        left = list(schema(body))
        order = []
        while left:
            var = left.pop(self.draw(_INDEX[len(left)]))
            order.append(SortBy(var, self.chance(), self.chance()))
        return top_k(order, (1, 2, 3, None)[self.draw(_INDEX[4])], (0, 0, 1, 2)[self.draw(_INDEX[4])], body)

    def bind(self, base: str, bound: list[str]) -> str:
        var = self.names.fresh(base)
        bound.append(var)
        return var

    def use(self, var: str, bound: list[str], visible: tuple[str, ...]) -> Expr:
        """A factor that depends on a variable just bound, since one that nothing reads tests little."""
        bound.append(var)
        if self.chance():
            return Value(Var(var))
        other = Var(self.pick(visible)) if visible and self.chance() else self.constant()
        return test(Call(self.pick(("<", "=", "<>", ">=")), (other, Var(var))))

    def grouped(self, wanted: tuple[str, ...], scope: tuple[str, ...], depth: int) -> Expr:
        """`Exists(Sum[g](E)) * (x := Sum[](E' * (g' := g)))`, which is how GROUP BY is said."""
        keys, result = wanted[:-1], wanted[-1]
        body = self.query(keys, scope, depth)
        copy, renamed = self.names.apart(body)
        same_group = [assign(renamed[key], Var(key)) for key in keys]
        of = self.names.fresh("v")
        value = assign(of, self.scalar(tuple(renamed[key] for key in keys)))
        match self.pick(("sum", "min", "max")):
            case "sum":
                return product(
                    exists(body), Lift(result, AggSum((), product(copy, *same_group, value, Value(Var(of)))))
                )
            case "min":
                return product(exists(body), Extreme(result, "min", of, product(copy, *same_group, value)))
            case _:
                return product(exists(body), Extreme(result, "max", of, product(copy, *same_group, value)))

    # --- scalars: integers and NULL only, and only functions that cannot fail

    def constant(self) -> Scalar:
        return Const((1, 2, 0, 1, 2, None)[self.draw(_INDEX[6])])

    def scalar(self, visible: tuple[str, ...]) -> Scalar:
        if not visible:
            return self.constant()
        var = Var(self.pick(visible))
        match self.pick(("var", "const", "+", "*", "-", "coalesce", "case")):
            case "var":
                return var
            case "const":
                return self.constant()
            case "coalesce":
                return Call("coalesce", (var, self.constant()))
            case "case":
                return Call("case", (self.condition(visible), var, self.constant()))
            case op:
                return Call(op, (var, Var(self.pick(visible)) if self.chance() else self.constant()))

    def condition(self, visible: tuple[str, ...]) -> Scalar:
        left: Scalar = Var(self.pick(visible)) if visible else self.constant()
        others = [name for name in visible if Var(name) != left]
        right: Scalar = Var(self.pick(others)) if others and self.chance() else self.constant()
        match self.pick(("=", "<", "<>", ">=", "<=>", "is_null", "not", "or", "in")):
            case "is_null":
                return Call("is_null", (left,))
            case "not":
                return Call("not", (Call("=", (left, right)),))
            case "or":
                return Call("or", (Call("<", (left, right)), Call("is_null", (right,))))
            case "in":
                return Call("in", (left, right, Const(1)))
            case op:
                return Call(op, (left, right))


# --- scalars of every kind and type, for the text form


def constants() -> st.SearchStrategy[Const]:
    decimals = st.decimals(allow_nan=False, allow_infinity=False)
    values = st.one_of(
        *(st.none(), st.booleans(), st.integers(), st.floats(), decimals, st.text(max_size=5), st.binary(max_size=3)),
        *(st.dates(), st.datetimes().map(lambda moment: moment.replace(fold=0))),
    )
    return values.map(Const)


NAMED = ("a", "b", "x1", "order id", "d_R", "sum", "Of", "date", "`", "d_", "été", "x")
_OPERATORS = ("+", "-", "*", "/", "%", "div", "=", "<>", "<", "<=", ">", ">=", "<=>", "like", "ilike", "rlike", "in")


def scalars() -> st.SearchStrategy[Scalar]:
    """Any scalar at all: it need not make sense."""
    names = st.sampled_from(NAMED)

    def calls(inner: st.SearchStrategy[Scalar]) -> st.SearchStrategy[Scalar]:
        some = st.lists(inner, max_size=4).map(tuple)
        several = st.lists(inner, min_size=2, max_size=3).map(tuple)
        return st.one_of(
            st.builds(Call, st.sampled_from(_OPERATORS), several),
            st.builds(Call, st.sampled_from(("and", "or")), several),
            st.builds(Call, st.sampled_from(("not", "neg", "is_null")), st.tuples(inner)),
            st.builds(Call, st.sampled_from(("case", "coalesce", "left", "date", "in", "+", "not", "é")), some),
            st.builds(Call, st.just("case"), st.tuples(inner, inner, inner, inner, inner)),
            st.builds(Cast, inner, st.sampled_from((INT, STRING, decimal(15, 2)))),
        )

    return st.recursive(st.one_of(st.builds(Var, names), constants(), st.just(NULL)), calls, max_leaves=8)
