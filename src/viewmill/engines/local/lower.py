"""Statements as Python source: nested loops over record pools, to be compiled (Hot Dog sections 5 and 6.1).

    Q(b) += Sum[b](d_R(a, b) * {a > 3} * M_ST(b))
=>
    for i in range(rows):
        v_a = peek(c_a, i * s_a)
        if v_a > 3:
            v_b = peek(c_b, i * s_b)
            r1 = find(M_ST, (v_b,))
            if r1 >= 0:
                # emit (v_b,) with the weight of the batch's row times the record's, into the OUT rows of Q's pool

A product is a nest: each factor opens a loop or an `if`, and the innermost lines emit a row. Statements that begin with
the same factors share them: the factors of all statements form a tree, and what stands at one leaf for several lanes of
one pool is one row. Variables are loaded where they are first needed.

Rows are emitted into a buffer of the target's pool and merged later, so every statement reads the state before the
batch, and nothing grows under a loop. `M + d_M`, the store after the batch, is read as one source, because what is
tested for existence or searched for the least must be the sum of both weights. Nested sums over ranges, and the least
of a group, are taken from ordered indexes (`ranges.py`, `thresholds.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from viewmill.algebra.build import agg_sum, product, sum_, terms
from viewmill.algebra.nodes import (
    AggSum,
    DeltaRelation,
    Exists,
    Expr,
    Extreme,
    Lift,
    Product,
    Relation,
    Sum,
    Test,
    Value,
)
from viewmill.algebra.scalars import Call, Var, can_fail
from viewmill.algebra.scalars import variables as scalar_variables
from viewmill.algebra.schema import Names, deltas, inputs, relations, schema, variables
from viewmill.algebra.typing import scalar_type, weight_type
from viewmill.engines.local.hoist import is_distinct, is_overlay
from viewmill.engines.local.paths import Branch, Lane, Leaf, Tree, Write, flat_factors
from viewmill.engines.local.ranges import Bound, Place, Range, find_range, place_of, store_atoms
from viewmill.engines.local.scalars import CannotLower, ScalarLowering, Tables
from viewmill.engines.local.sources import Atom, Source, Sources
from viewmill.engines.local.thresholds import Cut, Threshold, find_threshold
from viewmill.types import BIGINT, BINARY, STRING, Type


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a function's environment: a pool's block, a string's code, a table's address, ..."""

    kind: Literal["pool", "slice", "order", "text", "table", "dictionary"]
    what: object = None


@dataclass(frozen=True, slots=True)
class Lowered:
    """Source of one function `run(env, batch, rows, flags)`, and what its environment holds."""

    source: str
    words: tuple[Word, ...]
    slices: tuple[tuple[str, tuple[int, ...]], ...]  # slice indexes it reads, by pool
    writes: tuple[str, ...]  # pools it emits into
    columns: frozenset[str]  # columns of the batch it reads
    fails: bool  # a row may be an error


@dataclass(frozen=True, slots=True)
class Step:
    """Writes that run together. `then` is what happens to the rows they emit: kept for later, merged, or put."""

    writes: tuple[Write, ...]
    then: Literal["", "merge", "put"] = ""


class Weight(NamedTuple):
    """Source for a number, and its type: a decimal is its digits without the point."""

    text: str
    type: Type


Weights = list[Weight]
Then = Callable[[Weights], None]


def lower(steps: tuple[Step, ...], sources: Sources, columns: tuple[str, ...]) -> Lowered:
    """`columns` are those of the batch, in order; its weights come after them."""
    function = _Function(sources, columns)
    for step in steps:
        function.step(step)
    return function.finished()


@dataclass(slots=True)
class _Names:
    """Source names of pools, kept apart and readable."""

    taken: dict[str, str] = field(default_factory=dict)

    def of(self, pool: str) -> str:
        if pool not in self.taken:
            plain = re.sub(r"\W", "_", pool, flags=re.ASCII)
            name, count = f"p_{plain}", 1
            while name in self.taken.values():
                count += 1
                name = f"p_{plain}_{count}"
            self.taken[pool] = name
        return self.taken[pool]


class _Function:
    """The lines of one function, step by step."""

    def __init__(self, sources: Sources, columns: tuple[str, ...]) -> None:
        self._sources = sources
        self._columns = columns
        self._tables = Tables()
        self._names = _Names()
        self._words: dict[str, Word] = {}
        self._slices: dict[tuple[str, tuple[int, ...]], None] = {}
        self._written: dict[str, None] = {}
        self._used: dict[str, None] = {}
        self._column_of: dict[str, str] = {}
        self._body: list[str] = []
        self._count = 0

    def finished(self) -> Lowered:
        words = dict(self._words)
        words |= {f"text{i}": Word("text", text) for i, text in enumerate(self._tables.constants)}
        words |= {f"table{i}": Word("table", function) for i, function in enumerate(self._tables.functions)}
        if self._tables.compares:
            words["dictionary"] = Word("dictionary")
        lines = ["def run(env, batch, rows, flags):"]
        lines += [f"    {name} = peek(env, {i})" for i, name in enumerate(words)]
        lines += self._body or ["    pass"]
        source = "\n".join(lines) + "\n"
        return Lowered(
            source,
            tuple(words.values()),
            tuple(self._slices),
            tuple(self._written),
            frozenset(self._used),
            self._tables.fails,
        )

    # --- one step: loops, and what becomes of the rows

    def step(self, step: Step) -> None:
        tree = Tree(self._sources)
        for write in step.writes:
            tree.add(_summed_first(write))
        self._types = tree.types
        self._scalars = ScalarLowering(tree.types, self._tables, tree.not_null)
        self._lines: list[str] = []
        self._depth = 1
        self._bound: list[str] = []
        self._late: dict[str, str] = {}
        self._bases: dict[str, str] = {}
        self._outs: dict[str, None] = {}
        self._totals: dict[str, list[str]] = {}
        for leaf in tree.root.leaves:
            self._leaf(leaf, [])
        for branch in tree.root.branches.values():
            self._branch(branch, [])
        self._body += self._opening() + self._lines + self._closing(step)

    def _opening(self) -> list[str]:
        """Addresses that hold still while the loops run, and where each pool's rows go."""
        lines = [f"    {name} = {source}" for name, source in self._bases.items()]
        for pool in self._outs:
            p = self._names.of(pool)
            if pool in self._totals:
                lines += [f"    {total} = {'0.0' if total[0] == 'x' else 'int64(0)'}" for total in self._totals[pool]]
                lines.append(f"    n_{p} = int64(0)")
                continue
            lines.append(f"    n_{p} = peek({p}, EMITTED)")
            lines.append(f"    l_{p} = peek({p}, OUT_LIMIT)")
            lines.append(f"    o_{p} = peek({p}, OUT)")
        return lines

    def _closing(self, step: Step) -> list[str]:
        lines: list[str] = []
        for pool in self._outs:
            p = self._names.of(pool)
            self._written[pool] = None
            if pool in self._totals:
                lines += self._one_row(pool, p)
            else:
                lines.append(f"    poke({p}, EMITTED, n_{p})")
            if step.then:
                lines += [
                    f"    failed = call(peek({p}, {step.then.upper()}), {p}, 0)",
                    "    if failed != 0:",
                    "        poke(flags, 0, failed)",
                    "        return",
                ]
        return lines

    def _one_row(self, pool: str, p: str) -> list[str]:
        """A pool without keys has one record: its lanes are added up in variables, and emitted at the end."""
        codes = [f"bits({total})" if total.startswith("x") else total for total in self._totals[pool]]
        return [
            f"    if n_{p} != 0:",
            f"        n_{p} = peek({p}, EMITTED)",
            f"        l_{p} = peek({p}, OUT_LIMIT)",
            f"        o_{p} = peek({p}, OUT)",
            *("        " + line for line in self._make_room(p)),
            *(f"        poke(o_{p}, n_{p} * {len(codes)} + {i}, {code})" for i, code in enumerate(codes)),
            f"        poke({p}, EMITTED, n_{p} + 1)",
        ]

    def _make_room(self, p: str) -> list[str]:
        return [
            f"if n_{p} == l_{p}:",
            f"    if is_full({p}, n_{p}, flags):",
            "        return",
            f"    l_{p} = peek({p}, OUT_LIMIT)",
            f"    o_{p} = peek({p}, OUT)",
        ]

    # --- lines

    def _line(self, text: str) -> None:
        """A line of source, after those that load what it needs and was not needed before."""
        for name in re.findall(r"\bv_\w+", text):
            if name in self._late:
                source = self._late.pop(name)
                self._need_column(source)
                self._line(f"{name} = {source}")
        self._lines.append("    " * self._depth + text)

    def _need_column(self, source: str) -> None:
        """A column of the batch is there for functions that read it."""
        column = source[len("peek(") : source.index(",")]
        if column in self._column_of:
            place = self._columns.index(self._column_of[column])
            self._used[self._columns[place]] = None
            self._bases[column] = f"peek(batch, {2 * place})"
            self._bases["s" + column[1:]] = f"peek(batch, {2 * place + 1})"

    @contextmanager
    def _inside(self, opening: str) -> Iterator[None]:
        self._line(opening)
        self._depth += 1
        start, late, bound = len(self._lines), dict(self._late), list(self._bound)
        yield
        if len(self._lines) == start:
            self._lines.append("    " * self._depth + "pass")
        self._depth -= 1
        self._late, self._bound = late, bound

    def _fresh(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    @contextmanager
    def _binding(self, *names: str) -> Iterator[None]:
        before, late = list(self._bound), dict(self._late)
        self._bound += names
        yield
        self._bound, self._late = before, late

    # --- the tree of factors

    def _branch(self, branch: Branch, path: list[tuple[Branch, Weight]]) -> None:
        def below(weights: Weights) -> None:
            here = [*path, *((branch, weight) for weight in weights)]
            for leaf in branch.leaves:
                self._leaf(leaf, here)
            for child in branch.branches.values():
                self._branch(child, here)

        factor = branch.factor
        assert factor is not None
        if not isinstance(factor, Relation | DeltaRelation):
            self._emit(factor, [], below)
        elif self._sources(factor).kind == "batch":
            self._batch(factor, below)
        else:
            self._rows([factor], below, by_record=True)

    def _leaf(self, leaf: Leaf, path: list[tuple[Branch, Weight]]) -> None:
        """One row for all lanes that are written here under one key."""
        target = leaf.target
        p = self._pool(target.pool)
        self._outs[target.pool] = None
        lanes = {number: self._weight_of(lane, path) for number, lane in leaf.lanes.items()}
        if not target.keys:
            self._add_up(leaf, p, lanes)
            return
        for line in self._make_room(p):
            self._line(line)
        words = len(target.keys) + target.lanes
        at = self._fresh("at")
        codes = [self._scalars.code(Var(key), t) for key, t in zip(leaf.keys, target.types, strict=True)]
        codes += [lanes.get(lane, "int64(0)") for lane in range(target.lanes)]
        self._line(f"{at} = o_{p} + n_{p} * {8 * words}")
        for i, code in enumerate(codes):
            self._line(f"poke({at}, {i}, {code})")
        self._line(f"n_{p} += 1")

    def _weight_of(self, lane: Lane, path: list[tuple[Branch, Weight]]) -> str:
        """The weight of a row in the form of the target's: a code, or a double for a pool without keys."""
        # The record found by a branch is read in the lane that this statement means.
        weights = [
            self._lane(weight.text, lane.sources[branch.number])
            if branch.number in lane.sources and lane.sources[branch.number].kind != "batch"
            else weight
            for branch, weight in path
        ]
        nulls: list[str] = []
        for scalar in lane.values:
            low = self._scalars.weight(scalar, scalar_type(scalar, self._types))
            weights.append(Weight(low.value, low.type))
            if low.null is not None:
                nulls.append(low.null)
        wanted = lane.target.weight
        total = self._total(weights, wanted)
        if nulls:
            total = f"({_zero(wanted)} if {' or '.join(nulls)} else {total})"
        return f"bits({total})" if wanted.is_floating and lane.target.keys else total

    def _add_up(self, leaf: Leaf, p: str, lanes: dict[int, str]) -> None:
        pool = leaf.target.pool
        if pool not in self._totals:
            self._totals[pool] = [f"{'x' if double else 't'}_{p}_{i}" for i, double in enumerate(leaf.doubles)]
        for lane, weight in lanes.items():
            total = self._totals[pool][lane]
            self._line(f"{total} = {_plus(total, weight, floating=leaf.doubles[lane])}")
        self._line(f"n_{p} = int64(1)")

    def _lane(self, record: str, source: Source) -> Weight:
        """The weight of a record for one store, from the variable that holds the record."""
        base = self._base(source.pool, "w", "WEIGHTS")
        code = f"peek({base}, {record} * {source.lanes} + {source.lane})"
        return Weight(f"double({code})" if source.weight.is_floating else code, source.weight)

    def _total(self, weights: Weights, wanted: Type) -> str:
        """The product of the weights, in the form of `wanted`."""
        if wanted.is_floating:
            return " * ".join(self._scalars.as_double(*weight) for weight in weights) or "1.0"
        if any(weight.type.is_floating for weight in weights):
            raise CannotLower("a double where a number without rounding is kept")
        shift = wanted.scale - sum(weight.type.scale for weight in weights)
        if shift < 0:
            raise CannotLower("a weight with more digits than its store")
        texts = [weight.text for weight in weights] + ([f"int64({10**shift})"] if shift else [])
        if shift > 18:
            raise CannotLower("a weight with many more digits than its factors")
        total = texts[0] if texts else "int64(1)"
        for text in texts[1:]:
            total = f"multiply({total}, {text}, flags)"
        return total

    # --- expressions inside others

    def _weight_type(self, expr: Expr) -> Type:
        return weight_type(expr, self._field_type, self._types, self._source_weight)

    def _field_type(self, name: str, field_: str) -> Type:
        for atom in (Relation(name, (), ()), DeltaRelation(name, (), ())):
            try:
                source = self._sources(atom)
            except KeyError:
                continue
            return source.types[source.keys.index(field_)]
        raise CannotLower(f"the unknown source {name}")

    def _source_weight(self, atom: Atom) -> Type:
        return self._sources(atom).weight

    def _emit(self, expr: Expr, weight: Weights, then: Then) -> None:
        match expr:
            case Product(factors):
                self._product(factors, weight, then)
            case AggSum(_, body):
                self._emit(body, weight, then)
            case Relation() | DeltaRelation():
                self._rows([expr], lambda more: then([*weight, *more]))
            case Sum(parts) if is_overlay(parts):
                self._rows(list(parts), lambda more: then([*weight, *more]))  # type: ignore[arg-type]
            case Sum(parts):
                self._sum_of_parts(expr, parts, weight, then)
            case Value(scalar):
                self._value(expr, weight, then)
            case Test(scalar):
                with self._inside(f"if {self._scalars.is_true(scalar)}:"):
                    then(weight)
            case Lift(var, Value(scalar)) if var in self._bound:
                with self._inside(f"if {self._scalars.is_true(Call('<=>', (Var(var), scalar)))}:"):
                    then(weight)
            case Lift(var, Value(scalar)):
                self._assign(var, self._scalars.code(scalar, self._types[var]), weight, then)
            case Lift(var, body):
                self._lift(var, body, weight, then)
            case Extreme():
                self._extreme(expr, weight, then)
            case Exists(body):
                self._exists(body, weight, then)
            case _:
                raise CannotLower(f"{type(expr).__name__}")

    def _sum_of_parts(self, expr: Sum, parts: tuple[Expr, ...], weight: Weights, then: Then) -> None:
        """Each part in turn. Their weights take the form of the sum's."""
        wide = self._weight_type(expr)

        def one(more: Weights) -> None:
            then([*weight, Weight(self._total(more, wide), wide)])

        for part in parts:
            with self._binding():
                self._emit(part, [], one)

    def _product(self, factors: tuple[Expr, ...], weight: Weights, then: Then) -> None:
        if not factors:
            then(weight)
            return
        first, rest = factors[0], factors[1:]
        self._emit(first, weight, lambda more: self._product(rest, more, then))

    def _value(self, expr: Value, weight: Weights, then: Then) -> None:
        low = self._scalars.weight(expr.scalar, self._weight_type(expr))
        value = Weight(low.value, low.type)
        if low.null is None:
            then([*weight, value])
            return
        with self._inside(f"if not ({low.null}):"):
            then([*weight, value])

    def _assign(self, var: str, code: str, weight: Weights, then: Then) -> None:
        name = self._scalars.name(var)
        self._late.pop(name, None)
        self._line(f"{name} = {code}")
        with self._binding(var):
            then(weight)

    def _assign_or_compare(self, var: str, value: str, type_: Type, weight: Weights, then: Then) -> None:
        """The code of a computed value becomes that of the variable, or must be."""
        if var not in self._bound:
            self._assign(var, value, weight, then)
            return
        have = self._types[var]
        if have != type_ and (have.scale != type_.scale or have.is_floating != type_.is_floating):
            raise CannotLower(f"the comparison of a {type_} with a {have}")
        with self._inside(f"if {self._scalars.name(var)} == {value}:"):
            then(weight)

    def _lift(self, var: str, body: Expr, weight: Weights, then: Then) -> None:
        type_ = self._types[var] if var not in self._bound else self._weight_type(body)
        total = self._sum(body, type_)
        self._assign_or_compare(var, f"bits({total})" if type_.is_floating else total, type_, weight, then)

    def _sum(self, body: Expr, type_: Type) -> str:
        """Lines that add up the weights of `body`; returns the variable that holds the sum."""
        total = self._fresh("total")
        self._line(f"{total} = {_zero(type_)}")

        def add(weights: Weights) -> None:
            self._line(f"{total} = {_plus(total, self._total(weights, type_), floating=type_.is_floating)}")

        for term in terms(body):
            with self._binding():
                self._summed(tuple(flat_factors(term)), [], add)
        return total

    # --- sums over ranges, and rows in order

    def _summed(self, factors: tuple[Expr, ...], weight: Weights, then: Then) -> None:
        """As `_product`, where only weights matter: `then` adds them up, and need not be given them row by row."""
        if not factors:
            then(weight)
            return
        first, rest = factors[0], factors[1:]
        ranged = find_range(first, rest, self._bound, self._sources, self._types)
        threshold = find_threshold(first, rest, self._bound, self._sources, self._types) if ranged is None else None
        if ranged is not None:
            self._product(ranged.others, weight, lambda more: self._range_sum(ranged, more, then))
        elif threshold is not None:
            self._product(threshold.others, weight, lambda more: self._threshold(threshold, more, then))
        else:
            self._emit(first, weight, lambda more: self._summed(rest, more, then))

    def _range_sum(self, found: Range, weight: Weights, then: Then) -> None:
        low, high = self._fresh("low"), self._fresh("high")
        self._line(f"{low} = NULL")
        self._line(f"{high} = MOST")
        depth, late = self._depth, dict(self._late)
        for bound in found.bounds:
            self._narrow(found.place, bound, low, high)
        then([*weight, self._between(found.place, low, high)])
        self._depth, self._late = depth, late
        if found.change is not None:
            with self._binding():
                self._emit(found.change, weight, lambda more: self._product(found.tests, more, then))

    def _narrow(self, place: Place, bound: Bound, low: str, high: str) -> None:
        """Move an end of the range (low, high]. Nothing compares with NULL: what comes after is inside an `if`."""
        limit = self._scalars.lower(bound.limit)
        end = self._fresh("end")
        if limit.null is not None:
            self._line(f"if not ({limit.null}):")
            self._depth += 1
        below = bound.op in (">=", "<")  # the range ends just below the limit
        if place.type.is_floating:
            self._line(f"{end} = ordering(bits({self._scalars.as_double(limit.value, limit.type)}), 1)")
            self._line(f"{end} = {end} - {int(below)}")
        else:
            digits = limit.type.scale - place.type.scale
            value = limit.value if digits >= 0 else f"multiply({limit.value}, int64({10**-digits}), flags)"
            self._line(f"{end} = int64({value}) - {int(below)}")
            if digits > 0:
                self._line(f"{end} = rounded_down({end}, int64({10**digits}))")
        if bound.op in (">", ">="):
            self._line(f"{low} = {end} if {end} > {low} else {low}")
        else:
            self._line(f"{high} = {end} if {end} < {high} else {high}")

    def _between(self, place: Place, low: str, high: str) -> Weight:
        source = place.source
        lane, key = source.lane, _tuple(self._given_codes(place))
        text = f"range_sum({self._pool(source.pool)}, {self._order(place)}, {lane}, {low}, {high}, flags, {key})"
        total = self._fresh("part")
        self._line(f"{total} = {f'double({text})' if source.weight.is_floating else text}")
        return Weight(total, source.weight)

    def _order(self, place: Place) -> str:
        """The number of the ordered index, in a variable of its own."""
        p, order = self._pool(place.source.pool), place.order
        name = "_".join(["order", str(order.column), *map(str, order.within), p])
        self._words[name] = Word("order", (place.source.pool, order))
        return name

    def _given_codes(self, place: Place) -> list[str]:
        keys = place.source.keys
        var_of = {keys.index(field_): var for field_, var in place.given}
        return [self._scalars.code(Var(var_of[c]), place.source.types[c]) for c in place.order.within]

    def _threshold(self, found: Threshold, weight: Weights, then: Then) -> None:
        """Ranges if no sum can fall where its range grows, else a loop over all rows."""
        checks = []
        for each in found.ranges:
            place, key = each.place, _tuple(self._given_codes(each.place))
            pool = self._pool(place.source.pool)
            checks.append(f"never_negative({pool}, {self._order(place)}, {place.source.lane}, {key})")
        with self._inside(f"if {' and '.join(dict.fromkeys(checks))}:"):
            self._check_ends(found)
            for piece in found.pieces:
                with self._binding():
                    self._piece(found, piece, weight, then)
            if found.place.key in found.place.source.nullable:
                self._without_key(found, weight, then)
        with self._inside("else:"):
            self._product((found.place.atom, *found.lifts, *found.tests), weight, then)

    def _without_key(self, found: Threshold, weight: Weights, then: Then) -> None:
        """Rows whose key is NULL are in no range, and nothing is above them or below."""
        factors: tuple[Expr, ...] = (found.place.atom, *found.lifts, *found.tests)
        self._assign(found.place.var, "NULL", weight, lambda more: self._product(factors, more, then))

    def _check_ends(self, found: Threshold) -> None:
        """A test that is an error for some row is one for the first row or for the last."""
        if not any(can_fail(test.scalar) for test in found.tests):
            return
        place = found.place
        pool, key = self._pool(place.source.pool), _tuple(self._given_codes(place))
        for side in ("LEFT", "RIGHT"):
            record = self._fresh("r")
            lane = place.source.lane
            self._line(f"{record} = first_in_order({pool}, {self._order(place)}, {lane}, {side}, {key})")
            with self._inside(f"if {record} >= 0:"), self._at(place, record):
                self._product((*found.lifts, *found.tests), [], lambda _: self._line("pass"))

    def _piece(self, found: Threshold, piece: tuple[Cut, ...], weight: Weights, then: Then) -> None:
        depth = self._depth
        low, high = self._fresh("low"), self._fresh("high")
        for cut in piece:
            if cut.trend == "same":
                self._line(f"if {self._scalars.is_true(cut.test)}:")
                self._depth += 1
        self._line(f"{low} = NULL")
        self._line(f"{high} = MOST")
        for cut in piece:
            if cut.trend != "same":
                above = (cut.trend == "falling") == found.falls
                last = self._last_below(found, cut, above=above)
                if above:
                    self._line(f"{low} = {last} if {last} > {low} else {low}")
                else:
                    self._line(f"{high} = {last} if {last} < {high} else {high}")
        then([*weight, self._between(found.place, low, high)])
        self._depth = depth

    def _last_below(self, found: Threshold, cut: Cut, *, above: bool) -> str:
        """The last key where the test is false, if it is true `above` some key; else the last where it is true."""
        place = found.place
        pool, order = self._pool(place.source.pool), self._order(place)
        at, last = self._fresh("at"), self._fresh("last")
        self._line(f"{last} = NULL")
        self._line(f"{at} = tree({pool}, {order}, {_tuple(self._given_codes(place))})")
        used = scalar_variables(cut.test)

        def turn(_: Weights) -> None:
            test = self._scalars.is_true(cut.test)
            with self._inside(f"if {f'not {test}' if above else test}:"):
                self._line(f"{last} = ordering_at({pool}, {order}, {at})")
                self._line(f"{at} = child({pool}, {order}, {at}, RIGHT)")
            with self._inside("else:"):
                self._line(f"{at} = child({pool}, {order}, {at}, LEFT)")

        with self._inside(f"while {at} >= 0:"), self._at(place, at):
            self._product(tuple(lift for lift in found.lifts if lift.var in used), [], turn)
        return last

    @contextmanager
    def _at(self, place: Place, record: str) -> Iterator[None]:
        """The key of a record is that of the place."""
        source, name = place.source, self._scalars.name(place.var)
        with self._binding(place.var):
            self._late.pop(name, None)
            base = self._base(source.pool, "k", "KEYS")
            self._line(f"{name} = peek({base}, {record} * {len(source.keys)} + {source.keys.index(place.key)})")
            yield

    def _first_in_order(self, expr: Extreme, factors: tuple[Expr, ...], best: str, then: Then) -> bool:
        """Rows from the least on, or the greatest: the first that is there is it. False if they are in no order."""
        rows = next((i for i, factor in enumerate(factors) if store_atoms(factor)), len(factors))
        if not all(isinstance(f, Test) or (isinstance(f, Lift) and isinstance(f.body, Value)) for f in factors[:rows]):
            return False
        if rows == len(factors) or not all(isinstance(f, Test) for f in factors[rows + 1 :]):
            return False
        atoms = store_atoms(factors[rows])
        assert atoms is not None
        known = {*self._bound, *(f.var for f in factors[:rows] if isinstance(f, Lift))}
        place = place_of(atoms[0], expr.of, known, self._sources)
        if place is None or (len(atoms) > 1 and set(atoms[0].fields) != set(place.source.keys)):
            return False
        side = "LEFT" if expr.kind == "min" else "RIGHT"

        def walk(_: Weights) -> None:
            self._walk(place, atoms, side, factors[rows + 1 :], f"{best} = {self._scalars.name(expr.of)}")
            if len(atoms) > 1:
                self._only_in_change(atoms, lambda more: self._product(factors[rows + 1 :], more, then))

        with self._binding():
            self._product(factors[:rows], [], walk)
        return True

    def _walk(self, place: Place, atoms: tuple[Atom, ...], side: str, tests: tuple[Expr, ...], found: str) -> None:
        """Go through the store in order, up to the first record that is there after the batch and passes."""
        source = place.source
        pool, order, lane = self._pool(source.pool), self._order(place), source.lane
        record = self._fresh("r")
        key = _tuple(self._given_codes(place))
        self._line(f"{record} = first_in_order({pool}, {order}, {lane}, {side}, {key})")

        def stop(_: Weights) -> None:
            self._line(found)
            self._line("break")

        with self._inside(f"while {record} >= 0:"):
            with self._read(source, atoms[0], record):
                if len(atoms) == 1:
                    self._product(tests, [], stop)
                else:
                    change = self._sources(atoms[1])
                    total = self._with_change(record, source, change, atoms[1])
                    with self._inside(f"if {total} != 0:"):
                        self._product(tests, [], stop)
            following = f"next_in_order({pool}, {order}, {record}, {lane}, {side})"
            self._lines.append("    " * self._depth + f"{record} = {following}")

    def _with_change(self, record: str, source: Source, change: Source, atom: Atom) -> str:
        """The weight of a record after the batch."""
        found, total, wide = self._find(change, atom), self._fresh("w"), source.weight
        self._line(f"{total} = {self._total([self._lane(record, source)], wide)}")
        with self._inside(f"if {found} >= 0:"):
            more = self._total([self._lane(found, change)], wide)
            self._line(f"{total} = {_plus(total, more, floating=wide.is_floating)}")
        return total

    def _only_in_change(self, atoms: tuple[Atom, ...], then: Then) -> None:
        """The rows of a pending change that the store does not have."""
        store, change = self._sources(atoms[0]), self._sources(atoms[1])
        given = [(f, v) for f, v in zip(atoms[1].fields, atoms[1].vars, strict=True) if v in self._bound]
        with self._records(change, atoms[1], given) as record, self._read(change, atoms[1], record):
            found = self._find(store, atoms[0])
            # A record of the store may be there for the sake of another lane.
            with self._inside(f"if {found} < 0 or {self._lane(found, store).text} == 0:"):
                then([Weight(self._total([self._lane(record, change)], store.weight), store.weight)])

    def _exists(self, body: Expr, weight: Weights, then: Then) -> None:
        if set(schema(body)) <= set(self._bound):
            total = self._sum(body, self._weight_type(body))
            with self._inside(f"if {total} != 0:"):
                then(weight)
            return
        if not is_distinct(body, self._sources):
            raise CannotLower("a nested set that is neither kept nor looked up by its whole key")

        def there(more: Weights) -> None:
            with self._inside(f"if {more[0].text} != 0:"):
                then(weight)

        self._emit(body, [], there)

    def _extreme(self, expr: Extreme, weight: Weights, then: Then) -> None:
        type_ = self._types.get(expr.of, BIGINT)
        best = self._fresh("best")
        self._line(f"{best} = NULL")
        of = self._scalars.name(expr.of)
        better = self._better(of, best, expr.kind, type_)
        body = expr.body.body if isinstance(expr.body, AggSum) else expr.body
        if not self._is_one_source(body) and not self._only_counts(body):
            raise CannotLower("the extreme of rows whose weights come in parts")

        def compare(more: Weights) -> None:
            present = [f"{weight.text} != 0" for weight in more]
            with self._inside(f"if {' and '.join([*present, better])}:"):
                self._line(f"{best} = {of}")

        outer = list(self._bound)
        self._bound = [name for name in self._bound if name not in schema(expr.body)]
        if not self._first_in_order(expr, tuple(flat_factors(body)), best, compare):
            with self._binding():
                self._emit(body, [], compare)
        self._bound = outer
        self._assign_or_compare(expr.var, best, type_, weight, then)

    def _is_one_source(self, body: Expr) -> bool:
        """Every row comes from one record, so its weight is all there is."""
        factors = body.factors if isinstance(body, Product) else (body,)
        atoms = [f for f in factors if not isinstance(f, Test | Lift | Exists)]
        return len(atoms) == 1 and is_distinct(atoms[0], self._sources)

    def _only_counts(self, body: Expr) -> bool:
        """Weights are numbers of rows: a row is there if any part of its weight is."""
        match body:
            case Relation():
                return self._sources(body).counts
            case Sum(parts) if is_overlay(parts):
                return self._only_counts(parts[0])
            case Sum(parts) | Product(parts):
                return all(map(self._only_counts, parts))
            case AggSum(_, inner):
                return self._only_counts(inner)
            case Test() | Lift() | Exists() | Extreme():
                return True
            case _:
                return False

    def _better(self, of: str, best: str, kind: str, type_: Type) -> str:
        if type_ in (STRING, BINARY):
            self._tables.compares = True
            sign = f"compare_texts(dictionary, {of}, {best}) {'<' if kind == 'min' else '>'} 0"
        elif type_.is_floating:
            pair = (of, best) if kind == "min" else (best, of)
            sign = f"below(double({pair[0]}), double({pair[1]}))"
        else:
            sign = f"{of} {'<' if kind == 'min' else '>'} {best}"
        return f"{of} != NULL and ({best} == NULL or {sign})"

    # --- rows of sources

    def _pool(self, pool: str) -> str:
        name = self._names.of(pool)
        self._words[name] = Word("pool", pool)
        return name

    def _base(self, pool: str, stem: str, word: str) -> str:
        """The address of an array of a pool, in a variable of its own."""
        p = self._pool(pool)
        name = f"{stem}_{p}"
        self._bases[name] = f"peek({p}, {word})"
        return name

    def _batch(self, atom: Atom, then: Then) -> None:
        """The rows of the pending batch, from first to last."""
        i = self._fresh("i")
        at = len(self._columns)
        self._bases["c_weight"], self._bases["s_weight"] = f"peek(batch, {2 * at})", f"peek(batch, {2 * at + 1})"
        with self._inside(f"for {i} in range(rows):"):
            for field_, var in zip(atom.fields, atom.vars, strict=True):
                plain = re.sub(r"\W", "_", field_, flags=re.ASCII)
                self._column_of[f"c_{plain}"] = field_
                self._late[self._scalars.name(var)] = f"peek(c_{plain}, {i} * s_{plain})"
            with self._binding(*atom.vars):
                then([Weight(f"peek(c_weight, {i} * s_weight)", BIGINT)])

    def _rows(self, atoms: list[Atom], then: Then, *, by_record: bool = False) -> None:
        """The rows of one source, or of a store together with its pending change.

        `then` is given the weight or, `by_record`, the variable that holds the record.
        """
        sources = [self._sources(atom) for atom in atoms]
        if any(source.kind == "batch" for source in sources):
            raise CannotLower("the pending batch in the middle of an expression")
        given = [(f, v) for f, v in zip(atoms[0].fields, atoms[0].vars, strict=True) if v in self._bound]
        whole = len(given) == len(sources[0].keys)
        if len(atoms) > 1:
            (self._get_both if whole else self._overlay)(atoms, sources, given, then)
            return

        def weighed(record: str) -> None:
            then([Weight(record, BIGINT) if by_record else self._lane(record, sources[0])])

        if whole:
            record = self._find(sources[0], atoms[0])
            with self._inside(f"if {record} >= 0:"):
                weighed(record)
            return
        with self._records(sources[0], atoms[0], given) as record, self._read(sources[0], atoms[0], record):
            weighed(record)

    def _codes(self, source: Source, atom: Atom) -> list[str]:
        """The codes of all keys of a source, in its order, from bound variables."""
        var_of = dict(zip(atom.fields, atom.vars, strict=True))
        return [
            self._scalars.code(Var(var_of[key]), type_) for key, type_ in zip(source.keys, source.types, strict=True)
        ]

    def _find(self, source: Source, atom: Atom) -> str:
        record = self._fresh("r")
        codes = self._codes(source, atom)
        self._line(f"{record} = find({self._pool(source.pool)}, {_tuple(codes)})")
        return record

    def _get_both(self, atoms: list[Atom], sources: list[Source], given: list[tuple[str, str]], then: Then) -> None:
        wide = sources[0].weight
        total = self._fresh("w")
        self._line(f"{total} = {_zero(wide)}")
        for source, atom in zip(sources, atoms, strict=True):
            record = self._find(source, atom)
            with self._inside(f"if {record} >= 0:"):
                more = self._total([self._lane(record, source)], wide)
                self._line(f"{total} = {_plus(total, more, floating=wide.is_floating)}")
        with self._inside(f"if {total} != 0:"):
            then([Weight(total, wide)])

    @contextmanager
    def _records(self, source: Source, atom: Atom, given: list[tuple[str, str]]) -> Iterator[str]:
        """A loop over the records that have the given keys."""
        p = self._pool(source.pool)
        record = self._fresh("r")
        if not given:
            with (
                self._inside(f"for {record} in range(peek({p}, HIGH)):"),
                self._inside(f"if alive({p}, {record}):"),
            ):
                yield record
            return
        columns = tuple(sorted({source.keys.index(field_) for field_, _ in given}))
        var_of = {source.keys.index(field_): var for field_, var in given}
        self._slices[source.pool, columns] = None
        codes = [self._scalars.code(Var(var_of[c]), source.types[c]) for c in columns]
        number = f"by_{'_'.join(map(str, columns))}_{p}"
        self._words[number] = Word("slice", (source.pool, columns))
        self._line(f"{record} = first({p}, {number}, {_tuple(codes)})")
        with self._inside(f"while {record} >= 0:"):
            following = self._fresh("next")
            self._lines.append("    " * self._depth + f"{following} = after({p}, {number}, {record})")
            yield record
            self._lines.append("    " * self._depth + f"{record} = {following}")

    @contextmanager
    def _read(self, source: Source, atom: Atom, record: str) -> Iterator[None]:
        """Free variables take their values from the record; one that stands twice must agree."""
        base = self._base(source.pool, "k", "KEYS")
        depth = self._depth
        fresh: list[str] = []
        late = dict(self._late)
        for field_, var in zip(atom.fields, atom.vars, strict=True):
            if var in self._bound:
                continue
            value = f"peek({base}, {record} * {len(source.keys)} + {source.keys.index(field_)})"
            if var in fresh:
                self._line(f"if {self._scalars.name(var)} == {value}:")
                self._depth += 1
            else:
                self._late[self._scalars.name(var)] = value
                fresh.append(var)
        with self._binding(*fresh):
            yield
        self._depth, self._late = depth, late

    def _overlay(self, atoms: list[Atom], sources: list[Source], given: list[tuple[str, str]], then: Then) -> None:
        """Rows of the store with the change added, then rows that only the change has."""
        if set(atoms[0].fields) != set(sources[0].keys):
            raise CannotLower("part of a key of a store after the batch")
        store, change = zip(sources, atoms, strict=True)
        wide = sources[0].weight
        with self._records(*store, given) as record, self._read(*store, record):
            # What is there for the sake of another lane counts as absent, here and below.
            with self._inside(f"if {self._lane(record, store[0]).text} != 0:") if store[0].lanes > 1 else nullcontext():
                total = self._with_change(record, store[0], *change)
                with self._inside(f"if {total} != 0:"):
                    then([Weight(total, wide)])
        self._only_in_change(tuple(atoms), then)


def _summed_first(write: Write) -> Write:
    """`Q() += Sum[](A)  =>  Q() += (s := Sum[](A)) * s` where A has nested sums: it may be a matter of ranges."""
    if write.target.keys:
        return write
    names = Names(variables(write.expr))
    parts = []
    for term in terms(write.expr):
        nested = any(isinstance(f, Lift) and relations(f) and inputs(f) for f in flat_factors(term))
        if nested and not deltas(term):
            var = names.fresh("sum")
            term = product(Lift(var, agg_sum((), term)), Value(Var(var)))
        parts.append(term)
    return replace(write, expr=sum_(parts))


def _tuple(codes: list[str]) -> str:
    return f"({', '.join(codes)},)" if codes else "()"


def _zero(type_: Type) -> str:
    return "0.0" if type_.is_floating else "int64(0)"


def _plus(total: str, more: str, *, floating: bool) -> str:
    return f"{total} + {more}" if floating else f"add({total}, {more}, flags)"
