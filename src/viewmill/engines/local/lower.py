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

from dataclasses import replace

from viewmill.algebra.build import agg_sum, product, sum_, terms
from viewmill.algebra.nodes import DeltaRelation, Exists, Lift, Relation, Value
from viewmill.algebra.scalars import Var
from viewmill.algebra.schema import Names, deltas, inputs, relations, variables
from viewmill.algebra.typing import scalar_type
from viewmill.engines.local.expression_loops import ExpressionLoops
from viewmill.engines.local.hoist import is_any_row
from viewmill.engines.local.lowered import Lowered, Step, Weight, Weights, Word
from viewmill.engines.local.paths import Branch, Lane, Leaf, Tree, Write, flat_factors
from viewmill.engines.local.sources import Sources
from viewmill.engines.local.writing import plus, zero

_SHORT_KEY = 2
"""Up to so many words, a key is compared with that of the row before."""


def lower(steps: tuple[Step, ...], sources: Sources, columns: tuple[str, ...]) -> Lowered:
    """`columns` are those of the batch, in order; its weights come after them."""
    function = _Function(sources, columns)
    for step in steps:
        function.step(step)
    return function.finished()


class _Function(ExpressionLoops):
    """The lines of one function, step by step."""

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
            self._tables.fails_if_large,
        )

    # --- one step: loops, and what becomes of the rows

    def step(self, step: Step) -> None:
        tree = Tree(self._sources)
        for write in step.writes:
            tree.add(_summed_first(write))
        self._begin(tree.types, tree.not_null)
        self._outs: dict[str, None] = {}
        self._totals: dict[str, list[str]] = {}
        for write in step.writes if step.then == "put" else ():
            # A store is put in its new state also where there is nothing to loop over: `store := 0` empties it.
            self._pool(write.target.pool)
            self._outs[write.target.pool] = None
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
                    f"    failed = call(peek({p}, {'PUT' if step.then == 'put' else 'MERGE'}), {p}, flags)",
                    "    if failed != 0:",
                    "        poke(flags, 0, failed)",
                    "        return",
                ]
            if step.then == "set":
                lines += [
                    f"    w_{p} = peek({p}, WEIGHTS)",
                    f"    for each in range(peek({p}, HIGH)):",
                    f"        at = each * peek({p}, STRIDE)",
                    f"        poke(w_{p}, at, 1 if peek(w_{p}, at) != 0 else 0)",
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
        if isinstance(factor, Exists) and is_any_row(factor, self._sources):
            self._any_row(factor, below)
        elif not isinstance(factor, Relation | DeltaRelation):
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
        codes = [self._scalars.code(Var(key), t) for key, t in zip(leaf.keys, target.types, strict=True)]
        at = self._fresh("at")
        if len(codes) > _SHORT_KEY or any(leaf.doubles):  # doubles are added one by one, in the order of rows
            self._new_row(leaf, p, at, codes, lanes)
            return
        # Rows often come in runs of one key, as the items of an order do. Those are one row.
        words = len(codes) + target.lanes
        self._line(f"{at} = o_{p} + n_{p} * {8 * words}")
        same = [f"peek({at}, {i - words}) == {code}" for i, code in enumerate(codes)]
        with self._inside(f"if {' and '.join([f'n_{p} != 0', *same])}:"):
            for lane, weight in lanes.items():
                before = lane - target.lanes
                self._line(f"poke({at}, {before}, {plus(f'peek({at}, {before})', weight, floating=False)})")
        with self._inside("else:"):
            self._new_row(leaf, p, at, codes, lanes)

    def _new_row(self, leaf: Leaf, p: str, at: str, codes: list[str], lanes: dict[int, str]) -> None:
        for line in self._make_room(p):
            self._line(line)
        words = [*codes, *(lanes.get(lane, "int64(0)") for lane in range(leaf.target.lanes))]
        self._line(f"{at} = o_{p} + n_{p} * {8 * len(words)}")
        for i, word in enumerate(words):
            self._line(f"poke({at}, {i}, {word})")
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
            total = f"({zero(wanted)} if {' or '.join(nulls)} else {total})"
        return f"bits({total})" if wanted.is_floating and lane.target.keys else total

    def _add_up(self, leaf: Leaf, p: str, lanes: dict[int, str]) -> None:
        pool = leaf.target.pool
        if pool not in self._totals:
            self._totals[pool] = [f"{'x' if double else 't'}_{p}_{i}" for i, double in enumerate(leaf.doubles)]
        for lane, weight in lanes.items():
            total = self._totals[pool][lane]
            self._line(f"{total} = {plus(total, weight, floating=leaf.doubles[lane])}")
        self._line(f"n_{p} = int64(1)")


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
