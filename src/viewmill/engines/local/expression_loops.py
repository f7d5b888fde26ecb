"""Expressions as nested loops: every kind of node, and what is computed inside of others (sums, sets, extremes)."""

from __future__ import annotations

from viewmill.algebra.build import terms
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
from viewmill.algebra.scalars import Call, Var
from viewmill.algebra.schema import schema
from viewmill.algebra.typing import weight_type
from viewmill.engines.local.hoist import is_distinct, is_overlay
from viewmill.engines.local.lowered import Then, Weight, Weights
from viewmill.engines.local.paths import flat_factors
from viewmill.engines.local.range_loops import RangeLoops
from viewmill.engines.local.scalars import CannotLower
from viewmill.engines.local.sources import Atom
from viewmill.engines.local.writing import plus, zero
from viewmill.types import BIGINT, BINARY, STRING, Type


class ExpressionLoops(RangeLoops):
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
                self._scalars.know(var, scalar)
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

    def _value(self, expr: Value, weight: Weights, then: Then) -> None:
        low = self._scalars.weight(expr.scalar, self._weight_type(expr))
        value = Weight(low.value, low.type)
        if low.null is None:
            then([*weight, value])
            return
        with self._inside(f"if not ({low.null}):"):
            then([*weight, value])

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
        self._know_sum(var, body)
        self._assign_or_compare(var, f"bits({total})" if type_.is_floating else total, type_, weight, then)

    def _know_sum(self, var: str, body: Expr) -> None:
        if not self._is_word(body):
            self._scalars.know_sum(var, self._words_of(body))

    def _is_word(self, body: Expr) -> bool:
        """Whether it is the weight of one record of a store."""
        *tests, last = flat_factors(body)
        known = {*self._bound, *(f.var for f in tests if isinstance(f, Lift))}
        return (
            all(isinstance(f, Test) or (isinstance(f, Lift) and isinstance(f.body, Value)) for f in tests)
            and isinstance(last, Relation)
            and self._sources(last).kind == "store"
            and known.issuperset(last.vars)
        )

    def _words_of(self, body: Expr) -> Type | None:
        """The type of the weights of a store, if it is those that are added up, of some of its records."""
        factors = flat_factors(body)
        atoms = [f for f in factors if isinstance(f, Relation)]
        others = [f for f in factors if not isinstance(f, Relation)]
        if len(atoms) != 1 or not all(isinstance(f, Test | Lift) for f in others):
            return None
        source = self._sources(atoms[0])
        return source.weight if source.kind == "store" else None

    def _sum(self, body: Expr, type_: Type) -> str:
        """Lines that add up the weights of `body`; returns the variable that holds the sum."""
        total = self._fresh("total")
        self._line(f"{total} = {zero(type_)}")

        def add(weights: Weights) -> None:
            self._line(f"{total} = {plus(total, self._total(weights, type_), floating=type_.is_floating)}")

        for term in terms(body):
            with self._binding():
                self._summed(tuple(flat_factors(term)), [], add)
        return total

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

    # --- the least and the greatest

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

    # --- types

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
