"""The change of a view, from the changes of its stores.

What a batch changed is in the journals of the pools: a record, and its weights before. The view's restricted output is
evaluated for the keys that those changes reach, with the new weights and with the old ones put in their place for a
moment; the difference is the change of the view. A row is so taken back with exactly the values it was given out with,
also where they are doubles.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from viewmill.algebra.schema import relations
from viewmill.engines.local import layout
from viewmill.engines.local.indexes import address
from viewmill.engines.local.many import TRIGGERS, Group, Schedule, each, scheduled
from viewmill.engines.local.pools import Pool
from viewmill.engines.local.raw import FULL, Int, call, peek, peek_byte, poke, poke_byte
from viewmill.engines.local.ready import Ready, Surroundings
from viewmill.engines.local.records import grow
from viewmill.engines.local.sources import Source
from viewmill.engines.local.triggers import plan_changes
from viewmill.engines.local.wordcode import words
from viewmill.program.nodes import ViewPlan


@words
def _emit_changed(block: Int, lane: Int, target: Int) -> Int:
    """Put the keys that changed in a lane into another pool."""
    lanes, width, stride = peek(block, layout.LANES), peek(block, layout.WIDTH), peek(block, layout.STRIDE)
    journal, weights, keys = peek(block, layout.JOURNAL), peek(block, layout.WEIGHTS), peek(block, layout.KEYS)
    for entry in range(peek(block, layout.ENTRIES)):
        at = journal + 8 * entry * (1 + lanes)
        record = peek(at, 0)
        if record < 0:
            record = ~record
        if peek(at, 1 + lane) == peek(weights, record * stride + lane):
            continue
        row = peek(target, layout.EMITTED)
        if row == peek(target, layout.OUT_LIMIT):
            if grow(target, layout.GROW_OUT, 0) != 0:
                return FULL
        out = peek(target, layout.OUT) + 8 * row * (width + 1)
        for column in range(width):
            poke(out, column, peek(keys, record * stride + column))
        poke(out, width, 1)
        poke(target, layout.EMITTED, row + 1)
    return call(peek(target, layout.MERGE), target, 0)


@words
def _swap(block: Int) -> None:
    """Exchange the weights of all that the batch touched with those before it."""
    lanes, stride = peek(block, layout.LANES), peek(block, layout.STRIDE)
    journal, weights, live = peek(block, layout.JOURNAL), peek(block, layout.WEIGHTS), peek(block, layout.LIVE)
    for entry in range(peek(block, layout.ENTRIES)):
        at = journal + 8 * entry * (1 + lanes)
        record = peek(at, 0)
        if record < 0:
            record = ~record
        some = 0
        for lane in range(lanes):
            old = peek(at, 1 + lane)
            poke(at, 1 + lane, peek(weights, record * stride + lane))
            poke(weights, record * stride + lane, old)
            some |= old != 0
        state = peek_byte(live, record)
        poke_byte(live, record, (state & ~layout.ALIVE) | (layout.ALIVE if some else 0))
        if peek(block, layout.ORDERS) != 0:
            call(peek(block, layout.TOUCH), block, record)


# Words of what is watched
CHANGED = 0  # address, and how many: for each store its block, its lane, and the block that takes the keys that changed
READ = 2  # address of blocks, and how many: all pools that the output reads, each once
TEMPORARY = 4  # address of blocks, and how many: pools that start empty
OUTPUT = 6  # the schedule of the output
SAFE = 7  # it cannot fail while no pool has more records than this
WATCHED = 8


@words
def _run(watched: Int, flags: Int, before: Int) -> Int:
    each(peek(watched, TEMPORARY), peek(watched, TEMPORARY + 1), layout.BEGIN, 0)
    failed = 0
    changed = peek(watched, CHANGED)
    for i in range(peek(watched, CHANGED + 1)):
        failed |= _emit_changed(peek(changed, 3 * i), peek(changed, 3 * i + 1), peek(changed, 3 * i + 2))
    if before != 0:
        _swap_all(peek(watched, READ), peek(watched, READ + 1))
    failed |= scheduled(peek(watched, OUTPUT), 0, 0, flags, 0, 0)
    if before != 0:
        _swap_all(peek(watched, READ), peek(watched, READ + 1))
    return failed


@words
def _swap_all(blocks: Int, count: Int) -> None:
    for i in range(count):
        _swap(peek(blocks, i))


# Words of a request: what is the same for all batches of a relation that come the quick way
ENDED = 0  # address of blocks, and how many: pools that the last batch changed, if it was of another relation
CHANGING = 2  # address of blocks, and how many: pools that each batch changes
TRIGGER = 4  # the schedule
ANEW = 5  # address of schedules, and how many: what is evaluated anew after the trigger
CHECKS = 7  # address of what is watched, and how many: it must not fail after a batch
FLAGS = 9  # where they are
RUNS = 10  # how often it has run, to the end or not
REQUEST = 11


@words
def _requested(request: Int, batch: Int, rows: Int) -> Int:
    """Run a trigger, evaluate anew what is, then look at what must not fail. The last batch is over."""
    each(peek(request, ENDED), peek(request, ENDED + 1), layout.BEGIN, 0)
    poke(request, ENDED + 1, 0)
    each(peek(request, CHANGING), peek(request, CHANGING + 1), layout.BEGIN, 0)
    poke(request, RUNS, peek(request, RUNS) + 1)
    flags, anew, watches = peek(request, FLAGS), peek(request, ANEW), peek(request, CHECKS)
    failed = scheduled(peek(request, TRIGGER), batch, rows, flags, 0, 1)
    for i in range(peek(request, ANEW + 1)):
        if failed == 0:
            failed = scheduled(peek(anew, i), 0, 0, flags, 0, 0)
    for i in range(peek(request, CHECKS + 1)):
        watched = peek(watches, i)
        if failed == 0 and _may_fail(watched):
            failed = _run(watched, flags, 0)
    return failed


@words
def _may_fail(watched: Int) -> Int:
    most, blocks = -1, peek(watched, READ)
    for i in range(peek(watched, READ + 1)):
        most = max(most, peek(peek(blocks, i), layout.LIVING))
    return most > peek(watched, SAFE)


_run_watch = TRIGGERS.export(_run)
run_request = TRIGGERS.export(_requested)
_swap_pools = TRIGGERS.export(_swap_all)


def swap_weights(pools: Group) -> None:
    """Put what was before the batch in the place of what is now, and that where the other was. Twice, it is nothing."""
    if pools:
        _swap_pools(pools.address, len(pools.pools))


class Request:
    """What takes batches of one relation the quick way: `run_request(address, batch, rows)`."""

    def __init__(
        self, schedule: Schedule, anew: Sequence[Schedule], changing: Group, checks: Sequence[Watch], flags: int
    ) -> None:
        """A batch runs the schedule, then those of what it evaluates `anew`; all pools of `changing` may change."""
        self._anew = np.array([one.address for one in anew], np.int64)
        self._checks = np.array([watch.address for watch in checks], np.int64)
        self._words = np.zeros(REQUEST, np.int64)
        self._words[CHANGING:TRIGGER] = changing.address, len(changing.pools)
        self._words[TRIGGER] = schedule.address
        self._words[ANEW:CHECKS] = address(self._anew), len(anew)
        self._words[CHECKS:FLAGS] = address(self._checks), len(checks)
        self._words[FLAGS] = flags
        self._written = self._words.data
        self._keep = schedule, anew, checks
        self.changing = changing
        self.address = address(self._words)

    def end(self, groups: Collection[Group]) -> None:
        """The last batch changed these, and is over when the next one runs."""
        *others, last = groups or (Group(()),)
        for group in others:
            group.call_briefly(layout.BEGIN)
        self._ended = last  # which maybe nobody else keeps
        self._written[ENDED], self._written[ENDED + 1] = last.address, len(last.pools)

    @property
    def runs(self) -> int:
        """How many batches have changed pools, each after the one before was over."""
        count: int = self._written[RUNS]
        return count


class Watch:
    """One view whose changes are wanted, by compiled code."""

    def __init__(self, view: ViewPlan, placed: Mapping[str, Source], around: Surroundings, *, safe: int) -> None:
        """It cannot fail while no store has more than `safe` records."""
        self._ready = Ready(plan_changes(view, placed), around)
        self.rows = self._ready.plan.lets[self._ready.plan.output]
        stores = [
            (around.pool(placed[name].pool).address, placed[name].lane, self._ready.lets[source.pool].address)
            for name, source in self._ready.plan.lets.items()
            if name in placed
        ]
        # Also stores whose changes restrict nothing are read as they were.
        read = dict.fromkeys(placed[name].pool for name in sorted(relations(view.restricted)))
        self._changed = np.array([word for store in stores for word in store], np.int64)
        self._read = Group(around.pool(name) for name in read)
        self._watched = np.zeros(WATCHED, np.int64)
        temporary = self._ready.temporary
        for word, array, count in (
            (CHANGED, self._changed, len(stores)),
            (READ, self._read.blocks, len(self._read.pools)),
            (TEMPORARY, temporary.blocks, len(temporary.pools)),
        ):
            self._watched[word], self._watched[word + 1] = address(array), count
        self._watched[OUTPUT] = self._ready.without_begin
        self._watched[SAFE] = safe
        self.address = address(self._watched)
        self._out = self._ready.lets[self.rows.pool]

    def run(self, flags: int, *, before: bool) -> int:
        """Evaluate the restricted output, now or as it was `before` the batch, into the rows' pool. Returns flags."""
        return _run_watch(self.address, flags, before)

    @property
    def out(self) -> Pool:
        return self._out
