"""Loops over the rows of sources: of the batch, of a pool, of a store together with its pending change.

Each calls `then` with the weights of a row where the lines for that row belong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from viewmill.algebra.nodes import DeltaRelation, Exists
from viewmill.algebra.scalars import Var
from viewmill.engines.local.lowered import Then, Weight, Weights, Word
from viewmill.engines.local.polling import POLL
from viewmill.engines.local.scalars import CannotLower
from viewmill.engines.local.sources import Atom, Source
from viewmill.engines.local.writing import Writing, key_tuple, plus, zero
from viewmill.types import BIGINT, Type


class RowLoops(Writing):
    def _batch(self, atom: Atom, then: Then) -> None:
        """The rows of the pending batch, from first to last."""
        i = self._fresh("i")
        at = len(self._columns)
        self._bases["cw"], self._bases["sw"] = f"peek(batch, {2 * at})", f"peek(batch, {2 * at + 1})"
        with self._counting(i, "rows"):
            for field_, var in zip(atom.fields, atom.vars, strict=True):
                plain = self._plain(field_)
                self._late[self._scalars.name(var)] = f"peek(c_{plain}, {i} * s_{plain})"
            with self._binding(*atom.vars):
                then([Weight(f"peek(cw, {i} * sw)", BIGINT)])

    @contextmanager
    def _counting(self, number: str, upto: str) -> Iterator[None]:
        """A loop over all numbers. If it is not inside of another one, readers may come in now and then."""
        if self._depth > 1:
            with self._inside(f"for {number} in range({upto}):"):
                yield
            return
        start = f"start_{number}"
        with self._inside(f"for {start} in range(0, {upto}, {POLL}):"):
            self._line("let_in(flags)")
            with self._inside(f"for {number} in range({start}, min({start} + {POLL}, {upto})):"):
                yield

    def _plain(self, field_: str) -> str:
        """The name of a column in the code, which no other column has, and nothing else."""
        plain = re.sub(r"\W", "_", field_, flags=re.ASCII)
        while self._column_of.setdefault(f"c_{plain}", field_) != field_:
            plain += "_"
        return plain

    def _any_row(self, factor: Exists, then: Then) -> None:
        """Each row of the batch as one of a set, whatever its weight."""
        assert isinstance(factor.body, DeltaRelation)

        def there(weights: Weights) -> None:
            with self._inside(f"if {weights[0].text} != 0:"):
                then([])

        self._batch(factor.body, there)

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
        self._line(f"{record} = find({self._pool(source.pool)}, {key_tuple(codes)})")
        return record

    def _get_both(self, atoms: list[Atom], sources: list[Source], given: list[tuple[str, str]], then: Then) -> None:
        wide = sources[0].weight
        total = self._fresh("w")
        self._line(f"{total} = {zero(wide)}")
        for source, atom in zip(sources, atoms, strict=True):
            record = self._find(source, atom)
            with self._inside(f"if {record} >= 0:"):
                more = self._total([self._lane(record, source)], wide)
                self._line(f"{total} = {plus(total, more, floating=wide.is_floating)}")
        with self._inside(f"if {total} != 0:"):
            then([Weight(total, wide)])

    @contextmanager
    def _records(self, source: Source, atom: Atom, given: list[tuple[str, str]]) -> Iterator[str]:
        """A loop over the records that have the given keys."""
        p = self._pool(source.pool)
        record = self._fresh("r")
        if not given:
            with self._counting(record, f"peek({p}, HIGH)"), self._inside(f"if alive({p}, {record}):"):
                yield record
            return
        columns = tuple(sorted({source.keys.index(field_) for field_, _ in given}))
        var_of = {source.keys.index(field_): var for field_, var in given}
        self._slices[source.pool, columns] = None
        codes = [self._scalars.code(Var(var_of[c]), source.types[c]) for c in columns]
        number = f"by_{'_'.join(map(str, columns))}_{p}"
        self._words[number] = Word("slice", (source.pool, columns))
        self._line(f"{record} = first({p}, {number}, {key_tuple(codes)})")
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
            value = f"peek({base}, {record} * {source.stride} + {source.keys.index(field_)})"
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

    def _with_change(self, record: str, source: Source, change: Source, atom: Atom) -> str:
        """The weight of a record after the batch."""
        found, total, wide = self._find(change, atom), self._fresh("w"), source.weight
        self._line(f"{total} = {self._total([self._lane(record, source)], wide)}")
        with self._inside(f"if {found} >= 0:"):
            more = self._total([self._lane(found, change)], wide)
            self._line(f"{total} = {plus(total, more, floating=wide.is_floating)}")
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

    # --- weights

    def _lane(self, record: str, source: Source) -> Weight:
        """The weight of a record for one store, from the variable that holds the record."""
        base = self._base(source.pool, "w", "WEIGHTS")
        code = f"peek({base}, {record} * {source.stride} + {source.lane})"
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
