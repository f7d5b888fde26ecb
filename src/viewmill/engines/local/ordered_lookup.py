"""Reading ordered indexes in generated code. A key is a tuple of codes: those of the columns that an order is within.

    total = range_sum(block, 0, lane, low, high, flags, (a,))       # over the keys in (low, high], in ordering()
    record = first_in_order(block, 0, lane, LEFT, (a,))             # the record with the least key, or -1
    while record >= 0:
        ...
        record = next_in_order(block, 0, record, lane, LEFT)
    at = tree(block, 0, (a,))                                       # or down from the root
    while at >= 0:
        at = child(block, 0, at, LEFT if ordering_at(block, 0, at) > x else RIGHT)

Whoever enters a tree by its key finds it settled; nothing may be merged into the pool while it is walked through.
"""

from __future__ import annotations

from viewmill.engines.local.arithmetic import rest_part, whole_part
from viewmill.engines.local.hashing import home, tag_of_key
from viewmill.engines.local.layout import CHAIN_MASK, COLUMNS, HEADS, NODES
from viewmill.engines.local.lookup import _has_sub_key as has_key_in_columns
from viewmill.engines.local.ordered_loops import (
    KEY,
    LEFT,
    MARKS,
    MOST,
    NEGATIVE,
    RIGHT,
    SUMS,
    TOO_LARGE,
    first_of_tree,
    next_of_tree,
    node_bytes,
    order_at,
    ordering,
    settle,
    sum_between,
)
from viewmill.engines.local.raw import OVERFLOW, Int, peek, poke
from viewmill.engines.local.records import key_at
from viewmill.engines.local.tables import BUCKET, first_bit, record_in, tagged, vacant
from viewmill.engines.local.wordcode import inlined_words, words


@words
def tree(block: Int, number: Int, *key: Int) -> Int:
    """The root of the tree with this sub-key, settled, or -1."""
    index = order_at(block, number)
    heads, mask, columns = peek(index, HEADS), peek(index, CHAIN_MASK), peek(index, COLUMNS)
    tag = tag_of_key(*key)
    at = home(tag, mask)
    while True:
        found = tagged(heads, at, tag)
        while found:
            record = record_in(peek(heads, at + first_bit(found)))
            if has_key_in_columns(key_at(block, record), columns, *key):
                settle(block, peek(index, NODES), node_bytes(block), record)
                return record
            found &= found - 1
        if vacant(heads, at):
            return -1
        at = (at + BUCKET) & mask


@words
def range_sum(block: Int, number: Int, lane: Int, low: Int, high: Int, flags: Int, *key: Int) -> Int:
    """The sum of a lane over the keys in (low, high], 0 if there are none. What does not fit is flagged."""
    return sum_between(block, number, tree(block, number, *key), lane, low, high, flags)


@words
def first_in_order(block: Int, number: Int, lane: Int, side: Int, *key: Int) -> Int:
    """The first record, seen from a side, that has a weight in a lane, or -1."""
    return first_of_tree(block, number, tree(block, number, *key), lane, side)


@words
def never_negative(block: Int, number: Int, lane: Int, *key: Int) -> Int:
    """1 if no weight of a lane is negative or not a number, so that sums over wider ranges are greater or the same."""
    at = tree(block, number, *key)
    if at < 0:
        return 1
    marks = peek(peek(order_at(block, number), NODES) + node_bytes(block) * at, MARKS)
    return marks & (NEGATIVE << lane) == 0


@inlined_words
def child(block: Int, number: Int, record: Int, side: Int) -> Int:
    return peek(peek(order_at(block, number), NODES) + node_bytes(block) * record, side)


@inlined_words
def beside(block: Int, number: Int, record: Int, lane: Int, side: Int, flags: Int) -> Int:
    """The sum of a lane over what is below a node on one side. What does not fit is flagged."""
    nodes, size = peek(order_at(block, number), NODES), node_bytes(block)
    below = peek(nodes + size * record, side)
    if below < 0:
        return 0
    if peek(nodes + size * below, MARKS) & (TOO_LARGE << lane):
        poke(flags, 0, peek(flags, 0) | OVERFLOW)
    return peek(nodes + size * below, SUMS + lane)


@inlined_words
def ordering_at(block: Int, number: Int, record: Int) -> Int:
    """The key of a record, as ranges are given."""
    return peek(peek(order_at(block, number), NODES) + node_bytes(block) * record, KEY)


@words
def rounded_down(a: Int, unit: Int) -> Int:
    """The greatest whole number that is not above a / unit."""
    return whole_part(a, unit) - (rest_part(a, unit) < 0)


NAMES = {
    "tree": tree,
    "range_sum": range_sum,
    "first_in_order": first_in_order,
    "next_in_order": next_of_tree,
    "never_negative": never_negative,
    "child": child,
    "beside": beside,
    "ordering": ordering,
    "ordering_at": ordering_at,
    "rounded_down": rounded_down,
    "LEFT": LEFT,
    "RIGHT": RIGHT,
    "MOST": MOST,
}
"""What generated code calls these."""
