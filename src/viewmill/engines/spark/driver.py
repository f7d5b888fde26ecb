"""The driver's part of the state: stores that live on the driver, in the local engine."""

from __future__ import annotations

import pickle
from typing import Literal, TypeAlias

from viewmill.algebra.functions import one_nan
from viewmill.distribute.nodes import Plan
from viewmill.engines.interpreter.tables import Rows
from viewmill.engines.local.engine import LocalEngine
from viewmill.engines.local.pending import Pending, PendingRows
from viewmill.engines.spark.arrivals import Arrivals
from viewmill.engines.spark.refusals import StateError
from viewmill.engines.spark.work import Deployed
from viewmill.errors import DataError

Check: TypeAlias = Literal["nothing", "changed", "everything"]
"""Of what views show."""


class DriverState:
    """Takes what was gathered, in the order in which a plan fires its triggers."""

    def __init__(self, deployed: Deployed) -> None:
        self._deployed = deployed
        self.engine = LocalEngine(exact=True)
        self.engine.install(deployed.program.driver, deployed.known, {})

    def take(
        self, plan: Plan, arrivals: Arrivals, watched: frozenset[str] = frozenset(), *, check: Check = "changed"
    ) -> dict[str, Rows]:
        """The changes of the watched views. If what is to be checked is in error, this is to be made again."""
        pending: list[Pending] = []
        infos, ticks = self._deployed.program.infos, self._deployed.program.ticks
        for block in plan.blocks:
            within = {send.info.name: send.source for send in block.within}
            for name in block.fires if block.mode == "driver" else ():
                arrival = arrivals.get(within.get(name, name))
                if name in ticks:
                    pending.append(PendingRows(infos[name], {(0,): 1}))
                elif arrival is not None:
                    pending.append(arrival.pending(infos[name]))
        try:
            changes = self.engine.apply_pending(pending, watched, checked=check == "changed")
            if check == "everything":
                self.engine.check()
        except DataError as error:
            raise StateError(error.message, hint=error.hint) from error
        return changes

    def saved(self) -> bytes:
        stores = {name: self.engine.store(name) for name in self._deployed.program.driver.stores}
        return pickle.dumps(stores, protocol=pickle.HIGHEST_PROTOCOL)

    def restore(self, data: bytes) -> None:
        found: dict[str, Rows] = pickle.loads(data)
        stores = {
            name: {tuple(map(one_nan, row)): weight for row, weight in rows.items()} for name, rows in found.items()
        }
        self.engine = LocalEngine(exact=True)
        self.engine.load(self._deployed.program.driver, self._deployed.known, stores)
