"""The distributed program: where stores live, what runs where, and what travels (Hot Dog, section 4).

A store lives at a *place*: on the driver, in buckets by the hash of some of its keys, or everywhere (a copy in every
bucket). A change that has to be somewhere else travels: its rows arrive there as the batch of a relation of its own,
so that what runs at a place is an ordinary program, with one trigger for every change that arrives.

    send lineitem(l_orderkey, l_price) to buckets by l_orderkey as `lineitem@l_orderkey`     the batch, where it came in
    buckets on `lineitem@l_orderkey`:
      L(l_orderkey) += ...                                                                   stores of the same bucket
      let d_`lineitem#1`(custkey) = Sum[custkey](...)                                        what leaves the bucket
    send `lineitem#1`(custkey, weight_) to the driver as `lineitem#1@driver`
    driver on `lineitem#1@driver`:
      Q(custkey) += Sum[custkey](d_`lineitem#1@driver`(custkey, weight_) * weight_)

A batch as it came in has rows with counts. Anything else that travels has sums as weights: they are a last column,
`weight_`, of rows that count once each.

The driver never sends to buckets, so that a batch is one job, whatever it changes: source, blocks in buckets, driver.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from viewmill.algebra.nodes import Expr
from viewmill.catalog import ColumnInfo, RelationInfo
from viewmill.program.nodes import EMPTY, Program
from viewmill.types import BIGINT

WEIGHT = "weight_"

TICK = ColumnInfo("tick_", BIGINT, nullable=False)
"""The one column of what fires without rows of its own."""


@dataclass(frozen=True, slots=True)
class Driver:
    """On the driver: the papers' Local."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """One row in one bucket, by the hash of these columns: the papers' Dist."""

    by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Everywhere:
    """A copy in every bucket."""


@dataclass(frozen=True, slots=True)
class Anywhere:
    """In buckets, each row in one, no matter which: the papers' Random. No store lives there."""


@dataclass(frozen=True, slots=True)
class Here:
    """In the bucket where it is, for a later block. No store lives there."""


Place: TypeAlias = Driver | Buckets | Everywhere | Anywhere | Here

Mode: TypeAlias = Literal["source", "buckets", "driver"]


@dataclass(frozen=True, slots=True)
class Send:
    """Rows that travel: `source`, restricted to `info`'s columns, arrives at `to` as the batch of relation `info.name`.

    `source` is a relation of the mill (its batch as it came in: `incoming`), a `let` of a trigger of the block, or
    something that arrived in the block and is sent on as it is.
    `where` holds for every row that anybody at the other end looks at; of incoming batches only, and over its columns.
    What is sent to buckets arrives in the next block, what is sent to the driver in the driver's block.
    """

    source: str
    info: RelationInfo
    to: Place
    incoming: bool = False
    where: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """What runs at one time at one place: triggers, in order, then what they send.

    A trigger fires with the rows that arrived under its name, if there are any. If there is a `Send` for it in
    `within`, these are the rows that arrived in the block under the name of its source. A tick (`Distributed.ticks`)
    fires with the one row (0), in every bucket.
    """

    mode: Mode
    fires: tuple[str, ...] = ()
    within: tuple[Send, ...] = ()
    sends: tuple[Send, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What a batch over some relations does, block by block: the source, buckets, and the driver last."""

    relations: tuple[str, ...]
    blocks: tuple[Block, ...]

    @property
    def stages(self) -> int:
        """One for the source and one for each block in buckets."""
        return 1 + sum(block.mode == "buckets" for block in self.blocks)

    @property
    def jobs(self) -> int:
        """One, and one more for every time the driver has sent to buckets."""
        modes = [block.mode for block in self.blocks]
        return 1 + sum(pair == ("driver", "buckets") for pair in zip(modes, modes[1:], strict=False))


@dataclass(frozen=True, slots=True)
class Use:
    """That a trigger reads or changes a store, and when: the `turn` within what one relation's change does.

    0 a change that several others wait for is put down     1 reading, before the batch     2 `+=`
    3 what was put down is cleared                          4 and more, `:=`, in order
    """

    store: str
    kind: Literal["read", "add", "set"]
    turn: int


@dataclass(frozen=True, slots=True)
class Fire:
    """A trigger of the distributed program: whose change it serves, what it takes, what it does and sends."""

    name: str
    relation: str
    mode: Mode
    takes: tuple[str, ...]  # what has to have arrived: one name, or, for a tick, several or none
    uses: tuple[Use, ...] = ()
    sends: tuple[Send, ...] = ()


@dataclass(frozen=True, slots=True)
class Distributed:
    """A program, distributed: what runs at the source, in every bucket and on the driver, and where views are read.

    A view in buckets has each of its rows in one bucket; a view everywhere has all of them in every bucket.
    """

    places: dict[str, Place]
    buckets: Program
    driver: Program
    source: Program = EMPTY  # no stores: what is made of a batch where it came in
    infos: dict[str, RelationInfo] = field(default_factory=dict)  # of everything that arrives anywhere
    views: dict[str, Place] = field(default_factory=dict)
    ticks: frozenset[str] = frozenset()
    incoming: tuple[Send, ...] = ()
    looked_at: dict[str, tuple[Expr, ...]] = field(default_factory=dict)  # conditions of rows that the source looks at
    fires: tuple[Fire, ...] = ()
    order: tuple[str, ...] = ()  # in which the changes of relations take effect
    reasons: dict[str, str] = field(default_factory=dict)  # why a store is where it is
    fused: bool = True
