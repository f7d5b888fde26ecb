"""Sums over ranges, thresholds, and rows in order, taken from ordered indexes (`ranges.py`, `thresholds.py`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from viewmill.algebra.nodes import Expr, Extreme, Lift, Test, Value
from viewmill.algebra.scalars import Var, can_fail
from viewmill.algebra.scalars import variables as scalar_variables
from viewmill.engines.local.lowered import Then, Weight, Weights, Word
from viewmill.engines.local.ranges import Bound, Place, Range, find_range, place_of, store_atoms
from viewmill.engines.local.row_loops import RowLoops
from viewmill.engines.local.sources import Atom, Source
from viewmill.engines.local.thresholds import Cut, Threshold, find_threshold
from viewmill.engines.local.writing import key_tuple


class Running(NamedTuple):
    """A sum over all keys on one side of a node, while one goes down the tree.

    `beyond` is the variable for the sum over what is outside of the node's subtree, `more` that with the node's side
    of it. The node itself belongs to the sum if that is `inclusive`.
    """

    lift: Lift
    source: Source
    inclusive: bool
    beyond: str
    more: str


class RangeLoops(RowLoops, ABC):
    @abstractmethod
    def _emit(self, expr: Expr, weight: Weights, then: Then) -> None:
        """Lines for every row of an expression."""

    @abstractmethod
    def _know_sum(self, var: str, body: Expr) -> None:
        """A variable is the sum of an expression."""

    def _product(self, factors: tuple[Expr, ...], weight: Weights, then: Then) -> None:
        if not factors:
            then(weight)
            return
        first, rest = factors[0], factors[1:]
        self._emit(first, weight, lambda more: self._product(rest, more, then))

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
        lane, key = source.lane, key_tuple(self._given_codes(place))
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

    # --- thresholds

    def _threshold(self, found: Threshold, weight: Weights, then: Then) -> None:
        """Ranges if no sum can fall where its range grows, else a loop over all rows."""
        checks = []
        for each in found.ranges:
            place, key = each.place, key_tuple(self._given_codes(each.place))
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
        pool, key = self._pool(place.source.pool), key_tuple(self._given_codes(place))
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
        used = [
            pair for pair in zip(found.lifts, found.ranges, strict=True) if pair[0].var in scalar_variables(cut.test)
        ]
        running = [self._running(*pair) for pair in used if self._is_along(place, pair[1])]
        others = tuple(lift for lift, ranged in used if not self._is_along(place, ranged))
        self._line(f"{at} = tree({pool}, {order}, {key_tuple(self._given_codes(place))})")

        def turn(_: Weights) -> None:
            test = self._scalars.is_true(cut.test)
            with self._inside(f"if {f'not {test}' if above else test}:"):
                self._line(f"{last} = ordering_at({pool}, {order}, {at})")
                self._go("RIGHT", place, at, () if found.falls else running)
            with self._inside("else:"):
                self._go("LEFT", place, at, running if found.falls else ())

        with (
            self._inside(f"while {at} >= 0:"),
            self._at(place, at),
            self._binding(*(each.lift.var for each in running)),
        ):
            for each in running:
                self._add_subtree(each, place, at, "RIGHT" if found.falls else "LEFT")
            self._product(others, [], turn)
        return last

    def _is_along(self, place: Place, ranged: Range) -> bool:
        """Whether a sum is over the very tree that is walked, in which no key stands twice."""
        source, order = place.source, place.order
        same = ranged.place.source.pool == source.pool and ranged.place.order == order
        single = {*order.within, order.column} == set(range(len(source.keys)))
        if not same or not single or ranged.others or ranged.place.source.weight.is_floating:
            return False
        return self._given_codes(ranged.place) == self._given_codes(place)

    def _running(self, lift: Lift, ranged: Range) -> Running:
        beyond = self._fresh("beyond")
        self._line(f"{beyond} = int64(0)")
        self._know_sum(lift.var, lift.body)
        return Running(lift, ranged.place.source, ranged.bounds[0].op in (">=", "<="), beyond, self._fresh("more"))

    def _add_subtree(self, each: Running, place: Place, at: str, side: str) -> None:
        """The sum for the key of a node, from what is beyond its subtree and what is on a side of it."""
        pool, order = self._pool(place.source.pool), self._order(place)
        beside = f"beside({pool}, {order}, {at}, {each.source.lane}, {side}, flags)"
        self._line(f"{each.more} = add({each.beyond}, {beside}, flags)")
        own = self._lane(at, each.source).text
        total = f"add({each.more}, {own}, flags)" if each.inclusive else each.more
        name = self._scalars.name(each.lift.var)
        self._late.pop(name, None)
        self._line(f"{name} = {self._total([Weight(total, each.source.weight)], self._types[each.lift.var])}")

    def _go(self, side: str, place: Place, at: str, leaving: Sequence[Running]) -> None:
        """Down to a side; the sums take along what is left on the other."""
        for each in leaving:
            self._line(f"{each.beyond} = add({each.more}, {self._lane(at, each.source).text}, flags)")
        self._line(f"{at} = child({self._pool(place.source.pool)}, {self._order(place)}, {at}, {side})")

    @contextmanager
    def _at(self, place: Place, record: str) -> Iterator[None]:
        """The key of a record is that of the place."""
        source, name = place.source, self._scalars.name(place.var)
        with self._binding(place.var):
            self._late.pop(name, None)
            base = self._base(source.pool, "k", "KEYS")
            self._line(f"{name} = peek({base}, {record} * {source.stride} + {source.keys.index(place.key)})")
            yield

    # --- rows in order

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
        key = key_tuple(self._given_codes(place))
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
