"""Strings and binaries as numbers, in order of first appearance, and back.

    codes(["x", "y", None, "x"])  ->  [0, 1, NULL, 0]        value(1)  ->  "y"

A text and a binary of the same bytes are two strings. A string once there keeps its code, and none is ever removed.

Some strings are not data, but what a function has made of others (`substring(phone, 1, 2)`): they are *derived*.

There is one writer. Readers in other threads may ask for the values of codes that they have: what a code means does not
change, and arrays that have grown are new ones, put in place at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from viewmill.engines.local import interning
from viewmill.engines.local.memory import Anonymous, Memory, Shared
from viewmill.engines.local.scalars import NULL
from viewmill.errors import DataError, InternalError
from viewmill.numbers import as_column, numbers
from viewmill.types import BINARY, STRING, Type
from viewmill.wording import shown

Ints = NDArray[np.int64]

_FIRST_STRINGS = 512  # room at the start; it doubles as needed
_FIRST_BYTES = 8192
_AHEAD = 2**15  # strings for which memory is made ready, or an eighth of those there are
_STAGE = 4096  # strings of up to so many bytes are handed over without an array of their own
_REMEMBERED = 1 << 16  # how many values are looked up by Python
_SHORT = 64  # and of what length at most
_ARROW_LIMIT = 2**31 - 1  # bytes in one Arrow array of strings
_POINTERS = [interning.HEAP, interning.STARTS, interning.MARKS, interning.SLOTS]


class _Strings(NamedTuple):
    """What readers need, replaced as a whole. Python reads single items of a view faster than of an array."""

    heap: NDArray[np.uint8]
    starts: Ints
    marks: NDArray[np.uint8]
    heap_view: memoryview
    starts_view: memoryview
    marks_view: memoryview


def _strings(heap: NDArray[np.uint8], starts: Ints, marks: NDArray[np.uint8]) -> _Strings:
    return _Strings(heap, starts, marks, heap.data, starts.data, marks.data)


class Dictionary:
    """Codes of strings. `code` and `codes` add what is new."""

    def __init__(self, memory: Memory | None = None) -> None:
        memory = memory or Anonymous()
        self._start(memory.array((interning.BLOCK,), np.int64), memory)
        self._strings = _strings(
            memory.array((_FIRST_BYTES,), np.uint8),
            memory.array((_FIRST_STRINGS + 1,), np.int64),
            memory.array((_FIRST_STRINGS,), np.uint8),
        )
        self._slots: Ints = memory.array((2 * _FIRST_STRINGS,), np.int64)
        self._publish()

    @classmethod
    def held(cls, block: Ints, memory: Shared) -> Dictionary:
        """The dictionary that another process left in shared memory, by its control block. It is to be taken over."""
        dictionary = object.__new__(cls)
        dictionary._start(block, memory)
        dictionary._strings = _strings(np.empty(0, np.uint8), np.zeros(1, np.int64), np.empty(0, np.uint8))
        return dictionary

    def _start(self, block: Ints, memory: Memory) -> None:
        self._memory = memory
        self._block = block
        self._words = block.data
        self._address = address(block)
        self._stage = bytearray(_STAGE)
        self._staged = memoryview(self._stage)
        self._stage_address = address(np.frombuffer(self._stage, np.uint8))
        self._known: dict[str | bytes, int] = {}
        self._ranks = np.empty(0, np.int64)

    def take_over(self, moved: int) -> None:
        """Go on where another process left shared memory, which it had `moved` bytes further down."""
        self._block[_POINTERS] += moved
        heap, starts, marks, slots, mask, _, limit, room = self._block[: interning.ROOM + 1].tolist()
        old = self._strings
        if (address(old.heap), len(old.heap), address(old.starts), len(old.marks)) == (heap, room, starts, limit):
            return
        at = cast(Shared, self._memory).at
        self._strings = _strings(
            at(heap, (room,), np.uint8), at(starts, (limit + 1,), np.int64), at(marks, (limit,), np.uint8)
        )
        self._slots = at(slots, (mask + 1,), np.int64)

    def __len__(self) -> int:
        count: int = self._words[interning.COUNT]
        return count

    @property
    def nbytes(self) -> int:
        arrays = (*self._strings[:3], self._slots, self._block, self._ranks)
        return sum(array.nbytes for array in arrays) + _STAGE

    @property
    def address(self) -> int:
        """Of two words that compiled code may read: where the bytes of all strings are, and where each one starts."""
        return self._address

    # --- strings in

    def code(self, value: str | bytes) -> int:
        found = self._known.get(value)
        return found if found is not None else self._remembered(value)

    def codes(self, array: pa.Array, *, derived: bool = False) -> Ints:
        """The codes of an Arrow array of strings or binaries, NULL where it is NULL."""
        out = np.empty(len(array), np.int64)
        self.codes_into(array, address(out), derived=derived)
        return out

    def codes_into(self, array: pa.Array, out: int, *, derived: bool = False) -> None:
        """Write the codes of an Arrow array to the address `out`."""
        array = _with_offsets(array)
        wide = int(pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type))
        binary = int(pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type))
        valid, offsets, data = array.buffers()
        before = len(self)
        row, rows = 0, len(array)
        while True:
            row = interning.intern_rows(
                self._address,
                data.address if data is not None else 0,
                offsets.address if rows else 0,
                wide,
                valid.address if valid is not None and array.null_count else 0,
                array.offset,
                row,
                rows,
                binary | (interning.DERIVED if derived else 0),
                out,
            )
            if row == rows:
                break
            # The first rows have more new strings than those after them.
            expected = min((len(self) - before) * (rows - row) // max(row, 1), 3 * len(self))
            self._grow(len(array[row].as_buffer()), expected)
        self.check_new(before, texts=not binary)

    def check_new(self, before: int, *, texts: bool = True) -> None:
        """Compiled code may have entered more strings than there were `before`."""
        if len(self) > before:
            self._look_ahead()
            if texts:
                self._check_texts(before)

    def _remembered(self, value: str | bytes) -> int:
        binary = not isinstance(value, str)
        try:
            data = value.encode() if isinstance(value, str) else value
        except UnicodeEncodeError:
            raise DataError(
                f"the string {shown(value)} has half of a surrogate pair, which is no character",
                hint="strings are Unicode text; put other bytes into a binary column",
            ) from None
        size = len(data)
        if size <= _STAGE:
            self._staged[:size] = data
            found = self._intern(self._stage_address, size, binary)
        else:
            own = np.frombuffer(data, np.uint8)
            found = self._intern(address(own), size, binary)
        if size <= _SHORT:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[value] = found
        return found

    def _intern(self, at: int, size: int, binary: bool) -> int:
        found: int = interning.intern_one(self._address, at, size, int(binary))
        while found < 0:
            self._grow(size)
            found = interning.intern_one(self._address, at, size, int(binary))
        return found

    # --- all strings

    def dump(self) -> tuple[NDArray[np.uint8], Ints, NDArray[np.uint8]]:
        """The bytes of all strings, where each one starts, and of what kind it is."""
        strings, count = self._strings, len(self)
        return strings.heap[: strings.starts[count]], strings.starts[: count + 1], strings.marks[:count]

    def load(self, heap: NDArray[np.uint8], starts: Ints, marks: NDArray[np.uint8]) -> None:
        """Take the strings of another dictionary, with their codes. We have none."""
        limit, room = len(self._strings.marks), len(self._strings.heap)
        while limit < len(marks):
            limit *= 2
        while room < len(heap):
            room *= 2
        self._make_room(limit, room)
        self._strings.heap[: len(heap)] = heap
        self._strings.starts[: len(starts)] = starts
        self._strings.marks[: len(marks)] = marks
        self._block[interning.COUNT] = len(marks)
        interning.refill(self._address)

    # --- strings out

    def value(self, code: int) -> str | bytes:
        _, _, _, heap, starts, marks = self._strings
        if not 0 <= code < len(self):
            raise InternalError(f"no string has the code {code}")
        data = heap[starts[code] : starts[code + 1]]
        return bytes(data) if marks[code] & interning.BINARY else str(data, "utf-8")

    def values(self, codes: Ints, type_: Type = STRING) -> pa.Array | pa.ChunkedArray:
        """The strings with these codes, NULL for NULL; in several chunks if one cannot hold their bytes."""
        strings = self._strings
        codes = np.ascontiguousarray(codes, np.int64)
        offsets = np.empty(len(codes) + 1, np.int64)
        size = interning.measure(address(strings.starts), len(self), address(codes), len(codes), address(offsets))
        if size < 0:
            raise InternalError("a row has a code that no string has")
        if size > _ARROW_LIMIT:
            return self._in_halves(codes, type_)
        data = np.empty(size, np.uint8)
        interning.gather(
            address(strings.heap),
            address(strings.starts),
            address(codes),
            len(codes),
            address(offsets),
            address(data),
        )
        kind = pa.binary() if type_ == BINARY else pa.string()
        buffers = [validity(codes), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
        return pa.Array.from_buffers(kind, len(codes), buffers)

    def _in_halves(self, codes: Ints, type_: Type) -> pa.ChunkedArray:
        if len(codes) == 1:
            raise DataError("a string of more than 2 GiB is too long for an Arrow array")
        half = len(codes) // 2
        parts = [pa.chunked_array(self.values(part, type_)) for part in (codes[:half], codes[half:])]
        return pa.chunked_array([chunk for part in parts for chunk in part.chunks])

    def texts(self, codes: Ints) -> pa.Array:
        """The texts with these codes, in ascending order, in an array of the kind that has no limit on its bytes."""
        whole = self._whole(pa.large_string())
        if len(codes) and codes[-1] - codes[0] == len(codes) - 1:
            return whole.slice(codes[0], len(codes))
        return whole.take(as_column(codes))

    def marks(self, codes: Ints) -> NDArray[np.uint8]:
        """What kind of strings they are: `interning.BINARY`, `DERIVED`, both or none."""
        return self._strings.marks[codes]

    # --- order

    def rank_table(self) -> Ints:
        """For each code, how many strings come before its own in the order of their bytes, which is that of SQL."""
        if len(self._ranks) < len(self):
            order = numbers(pc.sort_indices(self._whole(pa.large_binary())))
            ranks = np.empty(len(order), np.int64)
            ranks[order] = np.arange(len(order))
            self._ranks = ranks
        return self._ranks

    # --- memory

    def _whole(self, kind: pa.DataType, first: int = 0) -> pa.Array:
        """All strings from code `first` on, where they lie."""
        buffers = [None, pa.py_buffer(self._strings.starts), pa.py_buffer(self._strings.heap)]
        return pa.Array.from_buffers(kind, len(self) - first, buffers, 0, first)

    def _grow(self, size: int, expected: int = 0) -> None:
        """Make room for one more string of `size` bytes, and for so many more if they are like those there are."""
        count, limit, room = len(self), int(self._block[interning.LIMIT]), int(self._block[interning.ROOM])
        used = int(self._strings.starts[count])
        wanted = used + size + used * expected // max(count, 1)
        while room < wanted:
            room *= 2
        while limit < count + 1 + expected:
            limit *= 2
        self._make_room(limit, room)

    def _look_ahead(self) -> None:
        """Have memory made ready for the strings to come."""
        heap, starts, marks = self._strings[:3]
        count = len(self)
        used, more = int(starts[count]), max(count // 8, _AHEAD)
        self._memory.expect(heap, used, used + used // max(count, 1) * more)
        self._memory.expect(starts, count, count + more)
        self._memory.expect(marks, count, count + more)
        share = min((count + more) / (len(self._slots) // 2), 1.0)
        self._memory.expect(self._slots, len(self._slots), int(2 * len(self._slots) * share))

    def _make_room(self, limit: int, room: int) -> None:
        if limit > 2**31:
            raise DataError(f"more than {limit // 2} different strings")
        memory = self._memory
        heap, starts, marks = self._strings[:3]
        try:
            if room > len(heap):
                heap = memory.longer(heap, room)
            if limit > len(marks):
                starts = memory.longer(starts, limit + 1)
                marks = memory.longer(marks, limit)
        finally:  # what has become longer is so, also if there was no memory for the rest
            self._strings = _strings(heap, starts, marks)
            self._publish()
        if 2 * limit > len(self._slots):
            self._slots = self._empty_slots(2 * limit)
            self._publish()
            interning.refill(self._address)

    def _empty_slots(self, length: int) -> Ints:
        """A longer table without strings, in place of the one that is there."""
        same = self._memory.in_place(self._slots, length)
        if same is not None:
            same[: len(self._slots)] = 0
            return same
        new: Ints = self._memory.array((length,), np.int64)
        self._memory.release(self._slots)
        return new

    def _publish(self) -> None:
        """Write to the control block where everything is, and how large."""
        block, strings = self._block, self._strings
        block[interning.HEAP] = address(strings.heap)
        block[interning.STARTS] = address(strings.starts)
        block[interning.MARKS] = address(strings.marks)
        block[interning.SLOTS] = address(self._slots)
        block[interning.MASK] = len(self._slots) - 1
        block[interning.LIMIT] = len(self._slots) // 2
        block[interning.ROOM] = len(strings.heap)

    def _check_texts(self, first: int) -> None:
        """Arrow does not look whether texts are UTF-8. New ones that are not are forgotten."""
        try:
            self._whole(pa.large_string(), first).validate(full=True)
        except pa.ArrowInvalid as error:
            self._block[interning.COUNT] = first
            self._slots[:] = 0
            interning.refill(self._address)
            raise DataError(f"a string is not UTF-8: {error}") from None


def validity(codes: Ints) -> pa.Buffer | None:
    """The bitmap that Arrow keeps of what is not NULL."""
    valid = codes != NULL
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _with_offsets(array: pa.Array) -> pa.Array:
    """The strings in one of the four forms that have offsets into one buffer."""
    kind = array.type
    if pa.types.is_string_view(kind):
        return array.cast(pa.large_string())
    if pa.types.is_binary_view(kind):
        return array.cast(pa.large_binary())
    if pa.types.is_fixed_size_binary(kind):
        return array.cast(pa.binary())
    return array


def address(array: NDArray[Any]) -> int:
    return int(array.ctypes.data)
