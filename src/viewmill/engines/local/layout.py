"""The control block of a record pool: one array of words that says where everything is.

Compiled code knows a pool by the address of its block, which never moves; what the block points to may.
"""

from __future__ import annotations

# Where the arrays are
KEYS = 0  # int64 [capacity, width + lanes]: a key and its weights side by side
WEIGHTS = 1  # the weights of the first record; doubles by their bits; all 0 where a record is dead or free
LIVE = 2  # uint8 [capacity], the bits below
SLOTS = 4  # int64 [slots], the unique index
JOURNAL = 5  # int64 [journal, 1 + lanes]: a touched record (~record if the batch inserted it), its weights before
OUT = 6  # int64 [room, width + lanes]: rows that a statement emits, to be merged

# Numbers
STRIDE = 3  # words from one record to the next
WIDTH = 8  # key columns
LANES = 9  # weights of a record
DOUBLES = 10  # bit i is set if lane i holds doubles
LIVING = 11  # records with a weight in some lane
INDEXED = 12  # records in the unique index: the living, and those that died in this batch
LIMIT = 13  # how many the arrays have room for
HIGH = 14  # records from here on were never used
FIRST_FREE = 15  # first free record, or -1; the first word of its key is the next one
ENTRIES = 16  # entries in the journal
ENTRY_LIMIT = 17  # how many it has room for; -1: nothing is journalled
MASK = 18  # number of slots, less one
EMITTED = 19  # rows in OUT
OUT_LIMIT = 20  # how many it has room for
GROW = 21  # address of grow(pool, what): what is one of the words below
POOL = 22  # the pool's number, for `grow`
SLICES = 23  # how many slice indexes there are
CAPACITY = 24  # records that KEYS, LIVE and LINKS have room for
SLOT_ROOM = 25  # words of memory at SLOTS; the table in use may be smaller
OUT_PEAK = 26  # the most rows merged at once in this batch
NEEDED = 27  # set before calling `grow`: for how many more rows there must be room. For OUT, 0 means twice as many
GROWN = -1  # what NEEDED is after `grow`, if it has done what was asked

# Addresses of the C functions in kernels.py, to be called as f(block, 0)
MERGE = 28
PUT = 29
BEGIN = 30
ROLLBACK = 31
CLEAR = 32
FIND_ALL = 33  # f(block, request), see there
TOUCH = 34  # f(block, record): its weights were changed by who knows no indexes

ORDERS = 35  # how many ordered indexes there are
SOON = 37  # records from which on `grow` is to be told, so that memory is there before it is needed
MOVES = 36  # how often an array was replaced: whoever knows another number has old arrays

# Ordered index i is at FIRST_ORDER + i * ORDER_WORDS. Its words are those of a slice, but for two:
FIRST_ORDER = 40
ORDER_WORDS = 16
MOST_ORDERS = 8
NODES = 1  # int64 [capacity, NODE_WORDS + lanes]: node i is that of record i
ORDER_COLUMN = 2  # the position of the column that it is ordered by
ORDER_DOUBLE = 9  # 1 if that holds doubles
NODE_WORDS = 5  # of a node, before the sums of its lanes: see ordered_loops.py

# Slice index i is at FIRST_SLICE + i * SLICE_WORDS
FIRST_SLICE = FIRST_ORDER + MOST_ORDERS * ORDER_WORDS
SLICE_WORDS = 16
HEADS = 0  # int64 [chains], sub-key to the first record of its chain
LINKS = 1  # int32 [capacity, 2]: the record before in the chain, -1 at its start; the next one, -1 at its end
CHAIN_MASK = 3  # length of HEADS, less one
CHAINS = 4  # sub-keys in the index
CHAIN_LIMIT = 5  # how many HEADS has room for
LINKED = 6  # journal entries seen (records, if nothing is journalled): what came later is not in a chain yet
COLUMNS = 7  # address of int64 [n + 1]: n, then the positions of the sub-key's columns
HEAD_ROOM = 8  # words of memory at HEADS; the table in use may be smaller

# What can grow
GROW_RECORDS = 0
GROW_JOURNAL = 1
GROW_OUT = 2
SHRINK_JOURNAL = 3
SHRINK_OUT = 4
LOOK_AHEAD = 5
GROW_SLICE = 8  # and the number of the slice added to it
GROW_ORDER = 2**16  # and the number of the ordered index added to it

# Bits of LIVE
ALIVE = 1
TOUCHED = 2  # in the journal of this batch
KEPT = 4  # named by the rows of a `:=` under way
