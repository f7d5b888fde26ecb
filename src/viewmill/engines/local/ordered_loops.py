"""The ordered indexes of a pool in compiled code: for every sub-key a search tree of records, with sums of weights.

A tree is a treap: ordered by (key, record) from left to right, and by a hash of the record number from top to bottom,
so that it is as deep as a random tree, whatever comes and goes. Node i belongs to record i, in an array as long as the
pool: linking and unlinking a record needs no memory, and neither does undoing a batch. A table maps a sub-key to its
root, as that of a slice does; `index` is the address of the index's part of the control block, laid out as a slice's.

A node holds the sums of all lanes over its subtree, and marks: which lanes are somewhere not zero, negative, or too
large to be added up. Law: a node that is not DIRTY holds what its subtree's records weigh, added up anew from its
children and its own record; above a dirty node all are dirty. So a changed weight only marks its way to the root, a
batch does so once for each node, and the next reader (`tree`) settles what is dirty. Nothing is subtracted: doubles do
not drift, and an infinity that is gone leaves no trace.

Records are linked and unlinked when slices do it: one that died in this batch weighs nothing and stays until the batch
ends. A record whose key is NULL is in no tree, since it is in no range and never the least.

Ranges are given as (low, high]: all keys above `low` up to `high`. Codes of doubles are turned into numbers that
compare as the doubles do, NaN after all others; `low` = NULL = -2**63 and `high` = 2**63 - 1 leave nothing out.
"""

from __future__ import annotations

from viewmill.engines.local.chains import has_sub_key, new_record, seek_chain, tag_in
from viewmill.engines.local.hashing import FACTOR, LAST, home, tag_of_words
from viewmill.engines.local.lanes import is_double, lane_sum, wraps
from viewmill.engines.local.layout import (
    ALIVE,
    CHAIN_LIMIT,
    CHAIN_MASK,
    CHAINS,
    COLUMNS,
    DOUBLES,
    ENTRIES,
    FIRST_ORDER,
    GROW_ORDER,
    HEADS,
    JOURNAL,
    LANES,
    LINKED,
    LIVE,
    NODE_WORDS,
    NODES,
    ORDER_COLUMN,
    ORDER_DOUBLE,
    ORDER_WORDS,
    ORDERS,
)
from viewmill.engines.local.polling import poll
from viewmill.engines.local.raw import CHUNK, OVERFLOW, Int, add, peek, peek_byte, poke
from viewmill.engines.local.records import grow, key_at, weights_at
from viewmill.engines.local.tables import BUCKET, erase_at, first_bit, place_of, record_in, tagged, vacant
from viewmill.engines.local.wordcode import inlined_words, shift_right, words

# Words of a node. Other nodes are records, -1 for none.
LEFT = 0
RIGHT = 1
UP = 2
KEY = 3  # a number that orders as the key does
MARKS = 4
SUMS = NODE_WORDS  # of all lanes

# Marks. Each of the first three is for lane 0; that for lane i is shifted by i.
SOME = 1  # a weight is not 0
NEGATIVE = 1 << 16  # a weight is below 0, or not a number
TOO_LARGE = 1 << 32  # integers that do not add up
PLANTED = 1 << 48  # the node is in a tree
DIRTY = 1 << 49

NULL = -(2**63)
MOST = 2**63 - 1
INFINITY = 0x7FF0000000000000


@inlined_words
def order_at(block: Int, number: Int) -> Int:
    return block + 8 * (FIRST_ORDER + number * ORDER_WORDS)


@inlined_words
def node_bytes(block: Int) -> Int:
    return 8 * (NODE_WORDS + peek(block, LANES))


@inlined_words
def ordering(code: Int, real: Int) -> Int:
    """A number that compares as the value of a code does."""
    return code ^ MOST if real and code < 0 else code


@inlined_words
def priority(record: Int) -> Int:
    """Pseudo-random: the higher one is above."""
    mixed = (record + 1) * FACTOR
    return (mixed ^ shift_right(mixed, 32)) * LAST


# Changing a tree


@words
def soil(nodes: Int, size: Int, record: Int) -> None:
    """Mark a node and all above it."""
    while record >= 0:
        node = nodes + size * record
        marks = peek(node, MARKS)
        if marks & DIRTY:
            return
        poke(node, MARKS, marks | DIRTY)
        record = peek(node, UP)


@words
def touch_nodes(block: Int, record: Int) -> None:
    """The weights of a record have changed, or will at once."""
    size = node_bytes(block)
    for number in range(peek(block, ORDERS)):
        nodes = peek(order_at(block, number), NODES)
        if peek(nodes + size * record, MARKS) & PLANTED:
            soil(nodes, size, record)


@words
def touch_chunk(block: Int, count: Int, records: Int) -> None:
    if peek(block, ORDERS) > 0:
        for number in range(count):
            if peek(records, number) >= 0:
                touch_nodes(block, peek(records, number))


@words
def lift(nodes: Int, size: Int, record: Int) -> None:
    """Turn a node and the one above it, so that it is the one above."""
    node = nodes + size * record
    parent = peek(node, UP)
    above = nodes + size * parent
    top = peek(above, UP)
    side = LEFT if peek(above, LEFT) == record else RIGHT
    inner = peek(node, RIGHT - side)
    poke(above, side, inner)
    if inner >= 0:
        poke(nodes + size * inner, UP, parent)
    poke(node, RIGHT - side, parent)
    poke(above, UP, record)
    poke(node, UP, top)
    if top >= 0:
        replace_child(nodes + size * top, parent, record)


@inlined_words
def replace_child(node: Int, old: Int, new: Int) -> None:
    poke(node, LEFT if peek(node, LEFT) == old else RIGHT, new)


@words
def plant(block: Int, index: Int, record: Int, key: Int) -> None:
    """Put a record into its tree. There must be room for one more tree."""
    nodes, size, tag = peek(index, NODES), node_bytes(block), tag_in(block, index, record)
    node = nodes + size * record
    place = seek_chain(block, index, record, tag)
    parent, following = -1, record_in(peek(peek(index, HEADS), place))
    if following < 0:
        poke(index, CHAINS, peek(index, CHAINS) + 1)
    side = LEFT
    while following >= 0:
        parent = following
        other = peek(nodes + size * parent, KEY)
        side = RIGHT if key > other or (key == other and record > parent) else LEFT
        following = peek(nodes + size * parent, side)
    if parent >= 0:
        poke(nodes + size * parent, side, record)
        soil(nodes, size, parent)
    poke(node, LEFT, -1)
    poke(node, RIGHT, -1)
    poke(node, UP, parent)
    poke(node, KEY, key)
    poke(node, MARKS, PLANTED | DIRTY)
    while peek(node, UP) >= 0 and priority(peek(node, UP)) < priority(record):
        lift(nodes, size, record)
    if peek(node, UP) < 0:
        poke(peek(index, HEADS), place, tag | (record + 1))


@words
def uproot(block: Int, index: Int, record: Int) -> None:
    """Take a record out of its tree, if it is in one: it sinks until nothing is below it."""
    nodes, size = peek(index, NODES), node_bytes(block)
    node = nodes + size * record
    if peek(node, MARKS) & PLANTED == 0:
        return
    soil(nodes, size, record)
    was_root, heir = peek(node, UP) < 0, -1
    while peek(node, LEFT) >= 0 or peek(node, RIGHT) >= 0:
        left, right = peek(node, LEFT), peek(node, RIGHT)
        child = left if right < 0 or (left >= 0 and priority(left) > priority(right)) else right
        below = nodes + size * child
        poke(below, MARKS, peek(below, MARKS) | DIRTY)  # it will be above what is dirty
        lift(nodes, size, child)
        if heir < 0:
            heir = child
    if peek(node, UP) >= 0:
        replace_child(nodes + size * peek(node, UP), record, -1)
    poke(node, MARKS, 0)
    if was_root:
        heads, mask, tag = peek(index, HEADS), peek(index, CHAIN_MASK), tag_in(block, index, record)
        place = place_of(heads, mask, tag | (record + 1))
        if heir >= 0:
            poke(heads, place, tag | (heir + 1))
        else:
            erase_at(heads, mask, place)
            poke(index, CHAINS, peek(index, CHAINS) - 1)


# Batches


@words
def room_for_tree(block: Int, number: Int) -> Int:
    """Make room for one more tree. Returns flags."""
    index = order_at(block, number)
    if peek(index, CHAINS) < peek(index, CHAIN_LIMIT):
        return 0
    return grow(block, GROW_ORDER + number, peek(index, CHAINS) + 1)


@words
def plant_record(block: Int, number: Int, record: Int) -> Int:
    """Put a record into an index, unless its key is NULL. Returns flags."""
    index = order_at(block, number)
    code = peek(key_at(block, record), peek(index, ORDER_COLUMN))
    if code == NULL:
        return 0
    full = room_for_tree(block, number)
    if full == 0:
        plant(block, index, record, ordering(code, peek(index, ORDER_DOUBLE)))
    return full


@words
def plant_new(block: Int, polled: Int) -> Int:
    """Bring every ordered index up to date with the records that came since the last call. Returns flags."""
    end = peek(block, ENTRIES)
    for number in range(peek(block, ORDERS)):
        index = order_at(block, number)
        for entry in range(peek(index, LINKED), end):
            if entry & (CHUNK - 1) == 0:
                poll(polled, entry)
            record = new_record(block, entry)
            if record >= 0:
                full = plant_record(block, number, record)
                if full:
                    return full
            poke(index, LINKED, entry + 1)
    return 0


@words
def plant_listed(block: Int, number: Int, records: Int, count: Int) -> Int:
    """Fill a new ordered index with the records in a list. Returns flags."""
    for at in range(count):
        full = plant_record(block, number, peek(records, at))
        if full:
            return full
    poke(order_at(block, number), LINKED, peek(block, ENTRIES))
    return 0


@words
def uproot_dead(block: Int) -> None:
    """Take the records that died in this batch out of their trees, just before they are freed."""
    stride, journal, live = 1 + peek(block, LANES), peek(block, JOURNAL), peek(block, LIVE)
    for number in range(peek(block, ORDERS)):
        index = order_at(block, number)
        for entry in range(peek(block, ENTRIES)):
            record = peek(journal, entry * stride)
            if record < 0:
                record = ~record
            if peek_byte(live, record) & ALIVE == 0:
                uproot(block, index, record)
        poke(index, LINKED, 0)


# Adding up


@words
def weigh(block: Int, nodes: Int, size: Int, record: Int) -> None:
    """Add up a node from its children, which are clean, and its own weights."""
    node, weights = nodes + size * record, weights_at(block, record)
    left, right = peek(node, LEFT), peek(node, RIGHT)
    below, beside = nodes + size * left, nodes + size * right
    marks = PLANTED
    if left >= 0:
        marks |= peek(below, MARKS)
    if right >= 0:
        marks |= peek(beside, MARKS)
    doubles = peek(block, DOUBLES)
    for lane in range(peek(block, LANES)):
        own, real = peek(weights, lane), is_double(doubles, lane)
        first = peek(below, SUMS + lane) if left >= 0 else 0
        last = peek(beside, SUMS + lane) if right >= 0 else 0
        some = lane_sum(first, own, real)
        total = lane_sum(some, last, real)
        poke(node, SUMS + lane, total)
        if own != 0:
            marks |= SOME << lane
        if own < 0 or (real and own > INFINITY):
            marks |= NEGATIVE << lane
        if wraps(first, own, some, real) < 0 or wraps(some, last, total, real) < 0:
            marks |= TOO_LARGE << lane
    poke(node, MARKS, marks)


@words
def settle(block: Int, nodes: Int, size: Int, root: Int) -> None:
    """Weigh every dirty node of a tree, those below before those above."""
    at = root
    while peek(nodes + size * root, MARKS) & DIRTY:
        node = nodes + size * at
        left, right = peek(node, LEFT), peek(node, RIGHT)
        if left >= 0 and peek(nodes + size * left, MARKS) & DIRTY:
            at = left
        elif right >= 0 and peek(nodes + size * right, MARKS) & DIRTY:
            at = right
        else:
            weigh(block, nodes, size, at)
            at = peek(node, UP)


# Reading


@words
def root_at(block: Int, number: Int, key: Int) -> Int:
    """The root of the tree of the sub-key at an address, settled, or -1."""
    index = order_at(block, number)
    heads, mask, columns = peek(index, HEADS), peek(index, CHAIN_MASK), peek(index, COLUMNS)
    tag = tag_of_words(key, peek(columns, 0))
    at = home(tag, mask)
    while True:
        found = tagged(heads, at, tag)
        while found:
            record = record_in(peek(heads, at + first_bit(found)))
            if has_sub_key(key_at(block, record), columns, key):
                settle(block, peek(index, NODES), node_bytes(block), record)
                return record
            found &= found - 1
        if vacant(heads, at):
            return -1
        at = (at + BUCKET) & mask


@inlined_words
def plus(total: Int, more: Int, real: Int, flags: Int) -> Int:
    if real:
        return lane_sum(total, more, 1)
    return add(total, more, flags)


@words
def sum_between(block: Int, number: Int, root: Int, lane: Int, low: Int, high: Int, flags: Int) -> Int:
    """The sum of a lane over the keys of a tree that are in (low, high]. What does not fit is flagged."""
    nodes, size = peek(order_at(block, number), NODES), node_bytes(block)
    weights, real = weights_at(block, 0) + 8 * lane, is_double(peek(block, DOUBLES), lane)
    stride = weights_at(block, 1) - weights_at(block, 0)
    at = root
    while at >= 0:
        key = peek(nodes + size * at, KEY)
        if low < key and key <= high:
            break
        at = peek(nodes + size * at, RIGHT if key <= low else LEFT)
    if at < 0:
        return 0
    if peek(nodes + size * at, MARKS) & (TOO_LARGE << lane):
        poke(flags, 0, peek(flags, 0) | OVERFLOW)
    total = peek(weights + stride * at, 0)
    down = peek(nodes + size * at, LEFT)
    if low == NULL and down >= 0:
        total = plus(total, peek(nodes + size * down, SUMS + lane), real, flags)
        down = -1
    while down >= 0:  # what is above `low`: here and to the right
        node = nodes + size * down
        if peek(node, KEY) > low:
            total = plus(total, peek(weights + stride * down, 0), real, flags)
            if peek(node, RIGHT) >= 0:
                total = plus(total, peek(nodes + size * peek(node, RIGHT), SUMS + lane), real, flags)
            down = peek(node, LEFT)
        else:
            down = peek(node, RIGHT)
    down = peek(nodes + size * at, RIGHT)
    if high == MOST and down >= 0:
        total = plus(total, peek(nodes + size * down, SUMS + lane), real, flags)
        down = -1
    while down >= 0:  # what is not above `high`: here and to the left
        node = nodes + size * down
        if peek(node, KEY) <= high:
            total = plus(total, peek(weights + stride * down, 0), real, flags)
            if peek(node, LEFT) >= 0:
                total = plus(total, peek(nodes + size * peek(node, LEFT), SUMS + lane), real, flags)
            down = peek(node, RIGHT)
        else:
            down = peek(node, LEFT)
    return total


@words
def outermost(block: Int, nodes: Int, size: Int, lane: Int, side: Int, at: Int) -> Int:
    """The first record of a subtree, seen from a side, that has a weight in a lane, or -1."""
    if at < 0 or peek(nodes + size * at, MARKS) & (SOME << lane) == 0:
        return -1
    while at >= 0:
        near = peek(nodes + size * at, side)
        if near >= 0 and peek(nodes + size * near, MARKS) & (SOME << lane):
            at = near
        elif peek(weights_at(block, at), lane) != 0:
            return at
        else:
            at = peek(nodes + size * at, RIGHT - side)
    return -1


@words
def first_of_tree(block: Int, number: Int, root: Int, lane: Int, side: Int) -> Int:
    """The record with the least key (from LEFT) or the greatest (from RIGHT) that has a weight in a lane, or -1."""
    return outermost(block, peek(order_at(block, number), NODES), node_bytes(block), lane, side, root)


@words
def next_of_tree(block: Int, number: Int, record: Int, lane: Int, side: Int) -> Int:
    """The one that follows."""
    nodes, size = peek(order_at(block, number), NODES), node_bytes(block)
    found = outermost(block, nodes, size, lane, side, peek(nodes + size * record, RIGHT - side))
    while found < 0:
        above = peek(nodes + size * record, UP)
        if above < 0:
            return -1
        if peek(nodes + size * above, side) == record:
            if peek(weights_at(block, above), lane) != 0:
                return above
            found = outermost(block, nodes, size, lane, side, peek(nodes + size * above, RIGHT - side))
        record = above
    return found
