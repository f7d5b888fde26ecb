"""One step of a batch in one bucket: what arrived goes in, what is sent comes out, and the state is one label on.

A batch whose end is a state in which a view cannot be computed is refused. Each step checks what it has changed in
views that can be in error. What is wrong after a step that is not the last may be right in the end, so it is a *doubt*,
which the bucket tells its later steps: the last one then looks at the whole view.

Law: if a view was without error before the batch, and no step has raised or doubted, then it is so after it; the cost
of knowing follows the change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from viewmill.catalog import ColumnInfo
from viewmill.distribute.nodes import Block, Driver, Here
from viewmill.durable.history import Entry
from viewmill.engines.local.kept import Kept
from viewmill.engines.local.pending import Pending, PendingRows
from viewmill.engines.spark.arrivals import Arrival, Arrivals, from_messages
from viewmill.engines.spark.failure import CORRECT
from viewmill.engines.spark.outgoing import Outgoing, outgoing
from viewmill.engines.spark.resolve import resolved
from viewmill.engines.spark.source import at_source
from viewmill.engines.spark.work import NOTHING, Deployed, Step, Wanted
from viewmill.errors import DataError, ViewmillError
from viewmill.wording import quoted


@dataclass(frozen=True, slots=True)
class Taken:
    """What a step sends; what it did to watched views, None where that cannot be told; and views that it doubts."""

    sent: list[Outgoing]
    changes: dict[str, pa.Table | None]
    doubted: frozenset[str] = frozenset()


def take(
    kept: Kept, deployed: Deployed, entry: Entry, number: int, table: pa.Table | None, wanted: Wanted = NOTHING
) -> Taken:
    """Run a step on what arrived for it, and commit it under the step's label."""
    step = deployed.steps(entry.relations)[number - 1]
    if table is None:
        arrivals: Arrivals = {}
    else:
        arrivals = from_messages(deployed, table)
    checked = sorted(wanted.checked - set(wanted.watched))
    kept.watch([*wanted.watched, *checked])
    kept.begin()
    if step.tables:
        sent = _resolve(kept, deployed, step, arrivals)
    else:
        sent = _run(kept, deployed, step.block, arrivals)
        if number == 1:
            sent += _for_driver(deployed, entry.relations, arrivals)
    is_last = wanted.ends and number == entry.blocks
    changes = {view: _change(kept, view, columns, is_last) for view, columns in wanted.watched.items()}
    for view in sorted(wanted.doubted) if is_last else ():
        if error := _error(kept.check_whole, view):
            raise error
    errors = {view: error for view in checked if (error := _error(kept.check, view))}
    for error in errors.values() if is_last else ():
        raise error
    kept.commit(entry.label(number))
    return Taken(sent, changes, frozenset(errors))


def _error(check: Callable[[str], None], view: str) -> DataError | None:
    """What is wrong with a view, and with which."""
    try:
        check(view)
    except DataError as error:
        hint = error.hint or CORRECT
        return DataError(f"{error.message} in view {quoted(view)}", hint=hint)
    return None


def _change(kept: Kept, view: str, columns: Sequence[ColumnInfo], is_last: bool) -> pa.Table | None:
    """A state that a batch passes through may be one in which the view cannot be computed, and that nobody reads.

    If that is where the batch ends, it is refused.
    """
    try:
        return kept.change(view, columns)
    except ViewmillError:
        if is_last:
            kept.contents(view)
        return None


def _resolve(kept: Kept, deployed: Deployed, step: Step, arrivals: Arrivals) -> list[Outgoing]:
    """What is asked of stored tables becomes their changes, which are sent as the source sends others."""
    changes: Arrivals = {}
    for table in step.tables:
        asked = arrivals.get(table.asked.name)
        if asked is not None and asked.counts is not None:
            rows, counts = resolved(kept, table, asked.rows, asked.counts)
            changes[table.info.name] = Arrival(rows, counts)
    sent = at_source(deployed, step.block.fires, step.block.sends, {**arrivals, **changes})
    for send in step.block.sends:
        if not send.incoming or isinstance(send.to, Driver):
            continue
        if send.source in changes:
            sent.append(Outgoing(send.info.name, send.to, changes[send.source].message(send.info)))
        elif send.info.name in arrivals:  # Spark has brought it where it belongs
            sent.append(Outgoing(send.info.name, Here(), arrivals[send.info.name].message(send.info)))
    return sent


def _for_driver(deployed: Deployed, relations: tuple[str, ...], arrivals: Arrivals) -> list[Outgoing]:
    """What else the source makes of rows that were brought here for that."""
    block = deployed.source_block(relations)
    return at_source(deployed, block.fires, [s for s in block.sends if isinstance(s.to, Driver)], arrivals)


def _run(kept: Kept, deployed: Deployed, block: Block, arrivals: Arrivals) -> list[Outgoing]:
    infos, triggers = deployed.program.infos, deployed.program.buckets.triggers
    within = {send.info.name: send.source for send in block.within}
    wanted = {send.source for send in block.sends}
    lets: dict[str, pa.RecordBatch] = {}
    for name in block.fires:
        arrival = arrivals.get(within.get(name, name))
        pending: Pending
        if name in deployed.program.ticks:
            pending = PendingRows(infos[name], {(0,): 1})
        elif arrival is not None:
            pending = arrival.pending(infos[name])
        else:
            continue
        asked = [s.target for s in triggers[name].statements if s.op == "let" and s.target in wanted]
        lets |= kept.fire([pending], {name: asked})
    return [out for send in block.sends if (out := outgoing(send, lets, arrivals)) is not None]
