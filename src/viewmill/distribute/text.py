"""Where stores live and what a batch does, as `explain` shows it.

store L(l_orderkey)             buckets by l_orderkey
view revenue                    driver

block 1, in buckets:
  on `lineitem@l_orderkey`:
    L(l_orderkey) += ...
  send `lineitem#1`(c_custkey, weight_) to the driver as `lineitem#1@driver`
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from viewmill.algebra.nodes import Expr, Relation
from viewmill.algebra.text import show, show_name
from viewmill.distribute.nodes import (
    Anywhere,
    Block,
    Buckets,
    Distributed,
    Driver,
    Everywhere,
    Here,
    Place,
    Plan,
    Send,
)
from viewmill.program.text import show_trigger


def show_placed(distributed: Distributed) -> str:
    """Every store and view with its place, and why it is there, if it could not be where it was to be."""
    stores = {**distributed.buckets.stores, **distributed.driver.stores}
    heads = {
        name: show(Relation(name, stores[name].keys, stores[name].keys))
        for name in distributed.places
        if name in stores
    }
    width = max((len(head) for head in heads.values()), default=0)
    lines = [f"view {show_name(name)}: {_at(place)}" for name, place in distributed.views.items()]
    for name, head in heads.items():
        reason = distributed.reasons.get(name)
        note = f"  -- {reason}" if reason else ""
        lines.append(f"store {head.ljust(width)}  {_at(distributed.places[name])}{note}")
    return "\n".join(lines)


def show_blocks(distributed: Distributed, plan: Plan, stored: Sequence[str] = ()) -> str:
    """What a batch does. That of tables whose rows are `stored` in buckets is looked up there first."""
    changed, stages = ", ".join(map(show_name, plan.relations)), plan.stages + bool(stored)
    lines = [f"a change of {changed}: {_count(plan.jobs, 'job')}, {_count(stages, 'stage')}"]
    if stored:
        names = ", ".join(map(show_name, stored))
        lines += ["", "tables, in buckets:", f"  look up rows of {names}, and go on with what changes as their source"]
    number = 0
    for block in plan.blocks:
        number += block.mode == "buckets"
        title = {"source": "source", "buckets": f"block {number}, in buckets", "driver": "driver"}[block.mode]
        lines += ["", f"{title}:", *(f"  {line}" for line in _block(distributed, block))]
    fired = {fire.name for fire in distributed.fires}
    above = [trigger for name, trigger in distributed.driver.triggers.items() if name not in fired]
    if above:
        lines += ["", "driver, where views are read by others:"]
        lines += (f"  {line}" for trigger in above for line in show_trigger(trigger))
    return "\n".join(lines)


def _block(distributed: Distributed, block: Block) -> Iterator[str]:
    programs = {"source": distributed.source, "buckets": distributed.buckets, "driver": distributed.driver}
    again = {send.info.name: send.source for send in block.within}
    for name in block.fires:
        head, *statements = show_trigger(programs[block.mode].triggers[name])
        if block.mode == "source":
            head = f"{head[:-1]}{_where(distributed.looked_at.get(name, ()))}:"
        if name in again:
            head = f"{head[:-1]}, which is {show_name(again[name])}:"
        yield from (head, *statements)
    for send in block.sends:
        yield _send(send)


def _send(send: Send) -> str:
    what = show(Relation(send.source, send.info.names, send.info.names))
    return f"send {what}{_where(send.where)} {_to(send.to)} as {show_name(send.info.name)}"


def _where(tests: tuple[Expr, ...]) -> str:
    return f" where {' and '.join(map(show, tests))}" if tests else ""


def _at(place: Place) -> str:
    match place:
        case Driver():
            return "driver"
        case Buckets(by):
            return f"buckets by {', '.join(map(show_name, by))}"
        case Everywhere():
            return "everywhere"
        case Anywhere():
            return "anywhere"
        case Here():
            return "here"
        case _:
            assert_never(place)


def _to(place: Place) -> str:
    match place:
        case Driver():
            return "to the driver"
        case Everywhere():
            return "to every bucket"
        case Anywhere():
            return "to any bucket"
        case Here():
            return "to the next block"
        case _:
            return f"to {_at(place)}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
