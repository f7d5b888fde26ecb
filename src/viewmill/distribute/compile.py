"""A program and its stores' places become programs for the source, the buckets and the driver (Hot Dog, figure 2).

First it is decided where stores live (`places.py`), and again where that does not work out (`repair.py`). Then every
term gets its way (`routes.py`), every statement what it sends and takes (`units.py`), and what happens together
becomes triggers (`triggers.py`). What a batch over some relations does with them is a plan (`plan.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

from viewmill.algebra.nodes import Expr
from viewmill.algebra.schema import relations
from viewmill.catalog import Catalog
from viewmill.distribute.asked import asked_for, partitioned
from viewmill.distribute.copies import Copies
from viewmill.distribute.nodes import Distributed, Driver, Mode, Place
from viewmill.distribute.passes import ALL_PASSES
from viewmill.distribute.places import SMALL, Placing
from viewmill.distribute.plan import plan
from viewmill.distribute.repair import Repair, view_place
from viewmill.distribute.routes import Router
from viewmill.distribute.triggers import Builder, Built
from viewmill.distribute.units import Units, Unroutable, timing
from viewmill.materialize.cost import records_found
from viewmill.program.nodes import Program, Store, Trigger


def distribute(
    program: Program,
    catalog: Catalog,
    *,
    passes: Collection[str] = ALL_PASSES,
    chosen: Mapping[str, Place] | None = None,
    known: Mapping[str, int] | None = None,
    small: float = SMALL,
) -> Distributed:
    """The program, distributed.

    Relations and views go where their PARTITION BY says. `chosen` are other places asked for, by store, view or table;
    what cannot be had there goes to the driver, with a reason.
    `known` are the rows of relations; a relation with less than `small` of the rows of the largest is copied.
    """
    placing = Placing(program, catalog, known or {}, small)
    compiler = _Compiler(program, catalog, placing, frozenset(passes), known or {})
    return compiler.compile(asked_for(program, {**partitioned(catalog), **(chosen or {})}))


def _rounds(distributed: Distributed) -> int:
    return plan(distributed, distributed.order).stages


def _is_readable(output: Expr, places: Mapping[str, Place]) -> bool:
    return view_place(output, places) is not None


@dataclass
class _Compiler:
    program: Program
    catalog: Catalog
    placing: Placing
    passes: frozenset[str]
    known: Mapping[str, int]

    def compile(self, chosen: Mapping[str, Place]) -> Distributed:
        """Stores that are copied have company only if that saves a round."""
        alone = Repair(self.program, self.placing, self.placing.choose(chosen), frozenset(chosen))
        found = self._compiled(alone)
        if not alone.has_copied:
            return found
        together = Repair(self.program, self.placing, self.placing.choose(chosen), frozenset(chosen), company=True)
        return min(found, self._compiled(together), key=_rounds)

    def _compiled(self, repair: Repair) -> Distributed:
        for name, trigger in self.program.triggers.items():
            if name in self.program.views:
                read = relations(self.program.views[name].output)
                stores = read.union(*(relations(s.expr) for s in trigger.statements))
                targets = {s.target for s in trigger.statements if s.op != "let"}
                repair.pin(stores | targets, f'view "{name}" is read by other views')
        while True:
            units = self._units(repair)
            if units is not None:
                return self._distributed(units, repair)

    def _units(self, repair: Repair) -> Units | None:
        """The units of all relations; None if stores had to be moved for them."""
        for view in self.program.views.values():
            if view_place(view.output, repair.places) is None:
                reason = f'view "{view.name}" reads them together'
                repair.meet(view.output, None, reason, partial(_is_readable, view.output))
                return None
        units = Units(self.program, repair.places)
        moved: set[str] = set()
        for name, trigger in self.program.triggers.items():
            if name in self.program.views:
                continue
            units.add_relation(self._router(trigger, repair.places))
            for failure in units.failures:
                concerned = relations(failure.expr) | {failure.target}
                if not concerned & moved:
                    self._gather(trigger, failure, repair)
                    moved |= concerned
            units.failures.clear()
        if moved:
            return None
        units.units += list(units.waiters())
        return units

    def _gather(self, trigger: Trigger, failure: Unroutable, repair: Repair) -> None:
        """Move stores until one statement can be computed."""
        lets = tuple(s for s in trigger.statements if s.op == "let")
        wanted = tuple(s for s in trigger.statements if s.op != "let" and s.target == failure.target)
        alone = replace(trigger, statements=(*lets, *wanted))

        def works(places: Mapping[str, Place]) -> bool:
            units = Units(self.program, places)
            units.add_relation(self._router(alone, places))
            return not units.failures

        reason = f'"{failure.target}" needs them together'
        repair.meet(failure.expr, failure.target, reason, works)

    def _router(self, trigger: Trigger, places: Mapping[str, Place]) -> Router:
        large = frozenset(self.catalog.relations) - self.placing.small
        thrifty, sharing = "push_down" in self.passes, "share" in self.passes
        taken = frozenset((*self.catalog.relations, *self.program.stores, *self.program.views))
        copying = "single_transformer" not in self.passes
        return Router(trigger, places, large, thrifty, sharing, taken, copying=copying)

    def _distributed(self, units: Units, repair: Repair) -> Distributed:
        found = records_found(self.program.stores, self.catalog, self.known)
        kept, spared, order = units.units, frozenset[str](), timing(units.units).best_order()
        if "share" in self.passes:
            kept, spared = Copies(self.program, repair.places, self.catalog, found, order).shared(kept)
        fused, lean = "fuse" in self.passes, "dead_code" in self.passes
        built = Builder(kept, units.waiting, self.program, self.catalog, found, order, fused, lean).build()
        places = {name: place for name, place in repair.places.items() if name not in spared}
        for name, (arrival, _) in units.waiting.items():
            places[name] = arrival.place
        stores = {name: store for name, store in self.program.stores.items() if name not in spared}
        stores |= built.stores
        return Distributed(
            places=places,
            buckets=self._program("buckets", built, stores, places),
            driver=self._program("driver", built, stores, places),
            source=self._program("source", built, {}, places),
            infos=built.infos,
            views={v.name: view_place(v.output, places) or Driver() for v in self.program.views.values()},
            ticks=frozenset(built.ticks),
            incoming=tuple(built.incoming),
            looked_at=built.looked_at,
            fires=tuple(built.fires),
            order=order,
            reasons={name: why for name, why in repair.reasons.items() if name not in spared},
            fused=fused,
        )

    def _program(self, mode: Mode, built: Built, stores: Mapping[str, Store], places: Mapping[str, Place]) -> Program:
        triggers = dict(built.triggers[mode])
        fields = {name: built.infos[name].names for name in triggers}
        on_driver = mode == "driver"
        kept = {name: store for name, store in stores.items() if isinstance(places[name], Driver) == on_driver}
        views = {
            name: view
            for name, view in self.program.views.items()
            if mode != "source" and (view_place(view.output, places) == Driver()) == on_driver
        }
        if on_driver:
            above = {name: t for name, t in self.program.triggers.items() if name in self.program.views}
            triggers |= above
            fields |= {name: self.program.fields[name] for name in above}
        return Program(kept, triggers, views, fields)
