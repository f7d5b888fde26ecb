"""A statement as Python source: nested loops over record pools, for Numba to compile (Hot Dog sections 5 and 6.1).

    Q(b) += Sum[b](d_R(b) * M_ST(b))
=>
    for r1 in range(d_R.counts[HIGH]):
        if d_R.weights[r1] != 0:
            v_b = d_R.keys[r1, 0]
            r2 = find(s_M_ST, (v_b,))
            if r2 >= 0:
                # emit (v_b,) with weight d_R.weights[r1] * s_M_ST.weights[r2]

A product is a nest: each factor opens a loop or an `if`, and the innermost line emits a row. Rows are written to a
buffer, and merged into the target afterwards: so a statement reads the state before it, can grow nothing under its
own feet, and fails before it has changed anything.

`M + d_M`, the store after the batch, is read as one source, because what is tested for existence or searched for the
least must be the sum of both weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

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
from viewmill.algebra.scalars import Scalar, Var
from viewmill.algebra.schema import schema, unshadowed
from viewmill.algebra.typing import variable_types, weight_type
from viewmill.engines.local.hoist import is_distinct, is_overlay
from viewmill.engines.local.scalars import CannotLower, ScalarLowering, Tables
from viewmill.types import BIGINT, STRING, Type


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """Rows to read: a store, or a pending change of a store or relation."""

    name: str
    change: bool
    keys: tuple[str, ...]
    types: tuple[Type, ...]
    weight: Type

    @property
    def prefix(self) -> str:
        plain = "".join(c if c.isalnum() and c.isascii() else f"_{ord(c):x}_" for c in self.name)
        return f"{'d' if self.change else 's'}_{plain}"


Sources = Callable[[str, bool], SourceInfo]


@dataclass(frozen=True, slots=True)
class Kernel:
    """Source of one function, and what its arguments are, in order."""

    source: str
    pools: tuple[SourceInfo, ...]
    slices: tuple[tuple[SourceInfo, tuple[int, ...]], ...]
    texts: tuple[str, ...]
    functions: tuple[tuple[Scalar, Type], ...]
    keys: tuple[str, ...]
    types: tuple[Type, ...]
    weight: Type


def lower(expr: Expr, keys: tuple[str, ...], types: tuple[Type, ...], weight: Type, sources: Sources) -> Kernel:
    """The kernel that emits the rows of `expr` over `keys`, with weights in the form of `weight`."""
    return _Lowering(sources, expr, keys, types, weight).kernel()


Then = Callable[[list[str]], None]


@dataclass(slots=True)
class _Access:
    """How one atom is read: a record variable, and the source of its weight."""

    info: SourceInfo
    atom: Relation | DeltaRelation


class _Lowering:
    def __init__(
        self, sources: Sources, expr: Expr, keys: tuple[str, ...], types: tuple[Type, ...], weight: Type
    ) -> None:
        self._sources = sources
        self._keys = keys
        self._types = types
        self._weight = weight
        self._tables = Tables()
        expr = unshadowed(expr)
        self._expr = expr
        self._var_types = variable_types(expr, self._field_type, None, self._source_weight)
        self._scalars = ScalarLowering(self._var_types, self._tables)
        self._pools: dict[SourceInfo, None] = {}
        self._slices: dict[tuple[SourceInfo, tuple[int, ...]], None] = {}
        self._lines: list[str] = []
        self._depth = 1
        self._count = 0
        self._bound: list[str] = []

    def _field_type(self, name: str, field_: str) -> Type:
        # Stores and changes of stores have the same keys; a change of a relation has the relation's fields.
        for change in (False, True):
            try:
                info = self._sources(name, change)
            except KeyError:
                continue
            return info.types[info.keys.index(field_)]
        raise CannotLower(f"the unknown source {name}")

    def _source_weight(self, atom: Relation | DeltaRelation) -> Type:
        return self._sources(atom.name, isinstance(atom, DeltaRelation)).weight

    def _weight_type(self, expr: Expr) -> Type:
        return weight_type(expr, self._field_type, self._var_types, self._source_weight)

    # --- the function around it

    def kernel(self) -> Kernel:
        for term in terms(self._expr):
            self._bound = []
            self._emit(term, [], lambda weight, term=term: self._emit_row(weight, term))  # type: ignore[misc]
        body = self._lines
        args = [info.prefix for info in self._pools]
        args += [f"{info.prefix}_{_columns(columns)}" for info, columns in self._slices]
        args += ["texts", *(f"table{i}" for i in range(len(self._tables.functions)))]
        zero = "float64" if self._weight.is_floating else "int64"
        lines = [
            f"def kernel({', '.join(args)}):",
            f"    out_keys = np.empty((64, {len(self._keys)}), np.int64)",
            f"    out_weights = np.empty(64, np.{zero})",
            "    n = 0",
            *body,
            "    return out_keys[:n], out_weights[:n]",
        ]
        return Kernel(
            "\n".join(lines) + "\n",
            tuple(self._pools),
            tuple(self._slices),
            tuple(self._tables.constants),
            tuple(self._tables.functions),
            self._keys,
            self._types,
            self._weight,
        )

    def _emit_row(self, weight: list[str], term: Expr) -> None:
        produced = self._weight_type(term)
        total = self._total(weight, produced, self._weight)
        self._line("if n == out_weights.shape[0]:")
        self._line("    out_keys, out_weights = grown(out_keys, out_weights)")
        for i, (key, type_) in enumerate(zip(self._keys, self._types, strict=True)):
            self._line(f"out_keys[n, {i}] = {self._key(key, type_)}")
        self._line(f"out_weights[n] = {total}")
        self._line("n += 1")

    def _key(self, var: str, type_: Type) -> str:
        return self._scalars.code(Var(var), type_)

    def _total(self, weight: list[str], produced: Type, wanted: Type) -> str:
        """The product of the weights, in the form of the target's."""
        if wanted.is_floating:
            return " * ".join(weight) if weight else "1.0"
        total = weight[0] if weight else "1"
        for factor in weight[1:]:
            total = f"multiply({total}, {factor})"
        shift = wanted.scale - produced.scale
        if shift < 0:
            raise CannotLower("a weight with more digits than its store")
        return f"multiply({total}, {10**shift})" if shift else total

    # --- lines

    def _line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def _inside(self, opening: str) -> Iterator[None]:
        self._line(opening)
        self._depth += 1
        start = len(self._lines)
        yield
        if len(self._lines) == start:
            self._line("pass")
        self._depth -= 1

    def _fresh(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    @contextmanager
    def _binding(self, *names: str) -> Iterator[None]:
        before = list(self._bound)
        self._bound += names
        yield
        self._bound = before

    # --- expressions

    def _emit(self, expr: Expr, weight: list[str], then: Then) -> None:
        match expr:
            case Product(factors):
                self._product(factors, weight, then)
            case AggSum(_, body):
                self._emit(body, weight, then)
            case Relation() | DeltaRelation():
                self._rows([expr], weight, then)
            case Sum(parts) if is_overlay(parts):
                self._rows(list(parts), weight, then)  # type: ignore[arg-type]
            case Sum(parts):
                for part in parts:
                    self._emit(part, list(weight), then)
            case Value(scalar):
                self._value(expr, weight, then)
            case Test(scalar):
                with self._inside(f"if {self._scalars.is_true(scalar)}:"):
                    then(weight)
            case Lift(var, Value(scalar)):
                self._assign(var, self._scalars.code(scalar, self._var_types[var]), weight, then)
            case Lift(var, body):
                self._lift(var, body, weight, then)
            case Extreme():
                self._extreme(expr, weight, then)
            case Exists(body):
                self._exists(body, weight, then)
            case _:
                raise CannotLower(f"{type(expr).__name__}")

    def _product(self, factors: tuple[Expr, ...], weight: list[str], then: Then) -> None:
        if not factors:
            then(weight)
            return
        first, rest = factors[0], factors[1:]
        self._emit(first, weight, lambda more: self._product(rest, more, then))

    def _value(self, expr: Value, weight: list[str], then: Then) -> None:
        type_ = self._weight_type(expr)
        low = self._scalars.weight(expr.scalar, type_)
        if low.null is None:
            then([*weight, low.value])
            return
        with self._inside(f"if not ({low.null}):"):
            then([*weight, low.value])

    def _assign(self, var: str, code: str, weight: list[str], then: Then) -> None:
        name = self._scalars.name(var)
        if var in self._bound:
            with self._inside(f"if {name} == {code}:"):
                then(weight)
            return
        self._line(f"{name} = {code}")
        with self._binding(var):
            then(weight)

    def _lift(self, var: str, body: Expr, weight: list[str], then: Then) -> None:
        type_ = self._var_types[var]
        total = self._sum(body, type_)
        self._assign(var, f"bits({total})" if type_.is_floating else total, weight, then)

    def _sum(self, body: Expr, type_: Type) -> str:
        """Lines that add up the weights of `body`; returns the variable that holds the sum."""
        total = self._fresh("total")
        self._line(f"{total} = {'0.0' if type_.is_floating else 'int64(0)'}")

        def add(weight: list[str], produced: Type) -> None:
            value = self._total(weight, produced, type_)
            self._line(f"{total} = {total} + {value}" if type_.is_floating else f"{total} = add({total}, {value})")

        for term in terms(body):
            produced = self._weight_type(term)
            with self._binding():
                self._emit(term, [], lambda weight, produced=produced: add(weight, produced))  # type: ignore[misc]
        return total

    def _exists(self, body: Expr, weight: list[str], then: Then) -> None:
        if set(schema(body)) <= set(self._bound):
            total = self._sum(body, self._weight_type(body))
            with self._inside(f"if {total} != 0:"):
                then(weight)
            return
        if not is_distinct(body, self._keys_of):
            raise CannotLower("a nested set that is neither kept nor looked up by its whole key")
        self._emit(body, [], lambda _: then(weight))

    def _keys_of(self, atom: Relation | DeltaRelation) -> tuple[str, ...]:
        return self._sources(atom.name, isinstance(atom, DeltaRelation)).keys

    def _extreme(self, expr: Extreme, weight: list[str], then: Then) -> None:
        type_ = self._var_types.get(expr.of, BIGINT)
        if type_ == STRING:
            raise CannotLower("the least or greatest string")
        best = self._fresh("best")
        self._line(f"{best} = NULL")
        of = self._scalars.name(expr.of)
        sign = "<" if expr.kind == "min" else ">"
        this, that = (f"double({of})", f"double({best})") if type_.is_floating else (of, best)

        def compare(_: list[str]) -> None:
            with self._inside(f"if {of} != NULL and ({best} == NULL or {this} {sign} {that}):"):
                self._line(f"{best} = {of}")

        outer = list(self._bound)
        self._bound = [name for name in self._bound if name not in schema(expr.body)]
        body = expr.body.body if isinstance(expr.body, AggSum) else expr.body
        for term in terms(body) if not (isinstance(body, Sum) and is_overlay(body.terms)) else (body,):
            with self._binding():
                self._emit(term, [], compare)
        self._bound = outer
        self._assign(expr.var, best, weight, then)

    # --- rows of sources

    def _rows(self, atoms: list[Relation | DeltaRelation], weight: list[str], then: Then) -> None:
        """The rows of one source, or of a store together with its pending change."""
        access = [_Access(self._sources(a.name, isinstance(a, DeltaRelation)), a) for a in atoms]
        for a in access:
            self._pools[a.info] = None
        given = [(f, v) for f, v in zip(atoms[0].fields, atoms[0].vars, strict=True) if v in self._bound]
        if len(given) == len(access[0].info.keys):
            self._get(access, weight, then)
        elif len(access) == 1:
            self._loop(access[0], given, weight, then)
        else:
            self._overlay(access, given, weight, then)

    def _find(self, access: _Access, codes: list[str]) -> str:
        record = self._fresh("r")
        prefix = access.info.prefix
        key = f"({', '.join(codes)},)" if codes else "()"
        self._line(f"{record} = find({prefix}, {key})")
        return record

    def _codes(self, access: _Access) -> list[str]:
        """The codes of all keys of a source, in its order, from bound variables."""
        var_of = dict(zip(access.atom.fields, access.atom.vars, strict=True))
        return [
            self._scalars.code(Var(var_of[key]), type_)
            for key, type_ in zip(access.info.keys, access.info.types, strict=True)
        ]

    def _get(self, access: list[_Access], weight: list[str], then: Then) -> None:
        if len(access) == 1:
            record = self._find(access[0], self._codes(access[0]))
            with self._inside(f"if {record} >= 0:"):
                then([*weight, f"{access[0].info.prefix}.weights[{record}]"])
            return
        total = self._fresh("w")
        self._line(f"{total} = {'0.0' if access[0].info.weight.is_floating else 'int64(0)'}")
        for a in access:
            record = self._find(a, self._codes(a))
            with self._inside(f"if {record} >= 0:"):
                self._line(f"{total} += {a.info.prefix}.weights[{record}]")
        with self._inside(f"if {total} != 0:"):
            then([*weight, total])

    @contextmanager
    def _records(self, access: _Access, given: list[tuple[str, str]]) -> Iterator[str]:
        """A loop over the records that have the given keys."""
        prefix = access.info.prefix
        record = self._fresh("r")
        if not given:
            with (
                self._inside(f"for {record} in range({prefix}.counts[HIGH]):"),
                self._inside(f"if {prefix}.weights[{record}] != 0:"),
            ):
                yield record
            return
        columns = tuple(sorted(access.info.keys.index(field_) for field_, _ in given))
        var_of = {access.info.keys.index(field_): var for field_, var in given}
        self._slices[access.info, columns] = None
        codes = [self._scalars.code(Var(var_of[c]), access.info.types[c]) for c in columns]
        index = f"{prefix}_{_columns(columns)}"
        self._line(f"{record} = first({prefix}, {index}, ({', '.join(codes)},))")
        with self._inside(f"while {record} >= 0:"):
            yield record
            self._line(f"{record} = after({prefix}, {index}, {record})")

    @contextmanager
    def _read(self, access: _Access, record: str) -> Iterator[None]:
        """Free variables take their values from the record; one that stands twice must agree."""
        prefix, depth = access.info.prefix, self._depth
        fresh: list[str] = []
        for field_, var in zip(access.atom.fields, access.atom.vars, strict=True):
            if var in self._bound:
                continue
            value = f"{prefix}.keys[{record}, {access.info.keys.index(field_)}]"
            if var in fresh:
                self._line(f"if {self._scalars.name(var)} == {value}:")
                self._depth += 1
            else:
                self._line(f"{self._scalars.name(var)} = {value}")
                fresh.append(var)
        with self._binding(*fresh):
            yield
        self._depth = depth

    def _loop(self, access: _Access, given: list[tuple[str, str]], weight: list[str], then: Then) -> None:
        with self._records(access, given) as record, self._read(access, record):
            then([*weight, f"{access.info.prefix}.weights[{record}]"])

    def _overlay(self, access: list[_Access], given: list[tuple[str, str]], weight: list[str], then: Then) -> None:
        """Rows of the store with the change added, then rows that only the change has."""
        store, change = access
        if set(store.atom.fields) != set(store.info.keys):
            raise CannotLower("part of a key of a store after the batch")
        for here, other in ((store, change), (change, store)):
            with self._records(here, given) as record, self._read(here, record):
                found = self._find(other, self._codes(other))
                if here is store:
                    total = self._fresh("w")
                    self._line(f"{total} = {here.info.prefix}.weights[{record}]")
                    with self._inside(f"if {found} >= 0:"):
                        self._line(f"{total} += {other.info.prefix}.weights[{found}]")
                    with self._inside(f"if {total} != 0:"):
                        then([*weight, total])
                else:
                    with self._inside(f"if {found} < 0:"):
                        then([*weight, f"{here.info.prefix}.weights[{record}]"])


def _columns(columns: tuple[int, ...]) -> str:
    return "by" + "_".join(map(str, columns))
