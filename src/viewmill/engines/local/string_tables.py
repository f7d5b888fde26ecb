"""Functions of one string, kept for every string they were asked for, so that compiled code looks them up.

Word 0 of a table is the function of NULL, word `code + 1` that of the string with this code, or `UNKNOWN`. Compiled
code that finds `UNKNOWN` asks back, and the function is computed: for this string, and for others that came at about
the same time, ever more of them, since many strings at once cost Arrow little more than one. So a function is computed
for about the strings it is used on, not for all that other columns have, and a function that makes strings does not
follow its own results for ever.

A function that is an error for a string is one only if it is used on it: then `look_up` sets the flag `FAILED`, and
`StringTables.failure` says what went wrong.
"""

from __future__ import annotations

import ctypes
from itertools import count
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa

from viewmill.algebra.functions import evaluate_scalar
from viewmill.algebra.scalars import Scalar
from viewmill.engines.local.dictionary import Dictionary, Ints, address
from viewmill.engines.local.raw import Int, call, peek, poke
from viewmill.engines.local.scalars import NULL
from viewmill.engines.local.string_arrays import TEXT, BeyondAscii, CannotVectorise, evaluate_texts, is_ascii
from viewmill.engines.local.values import encode
from viewmill.engines.local.wordcode import words
from viewmill.errors import DataError
from viewmill.numbers import numbers
from viewmill.types import STRING, Type

FAILED = 8
"""A flag (see `raw.py`): a function was used on a string for which it is an error."""

UNKNOWN = NULL + 1
"""What is not computed yet. Should it be the code of a value, that is computed each time."""

# The block of a table, which never moves
_WORDS = 0  # address of int64 [_ROOM]
_ROOM = 1
_MISS = 2  # address of miss(number, code) -> code of the value
_NUMBER = 3  # the table's number, for `miss`
_FAILED = 4  # `miss` had an error

_AHEAD = 16  # strings computed with the first one that was missing; with the next ones, ever more
_MANY = 8  # strings from which on Arrow takes less time than Python, which takes a few microseconds for each


@words
def look_up(table: Int, code: Int, flags: Int) -> Int:
    """For generated code: the function of the string `code` (or NULL), by the address of the table."""
    at = 0 if code == NULL else code + 1
    if at < peek(table, _ROOM):
        word = peek(peek(table, _WORDS), at)
        if word != UNKNOWN:
            return word
    poke(table, _FAILED, 1)  # until we are told otherwise
    word = call(peek(table, _MISS), peek(table, _NUMBER), code)
    if peek(table, _FAILED) != 0:
        poke(flags, 0, peek(flags, 0) | FAILED)
    return word


class StringTable:
    """A function of the variable `text`, with values of a type."""

    def __init__(self, function: Scalar, type_: Type, dictionary: Dictionary) -> None:
        self.function = function
        self.type = type_
        self.error: BaseException | None = None  # the first one that a look-up met
        self._dictionary = dictionary
        self._words = np.full(1, UNKNOWN, np.int64)
        self._block = np.zeros(5, np.int64)
        self._block[_MISS] = _MISS_ADDRESS
        self._block[_NUMBER] = next(_numbers)
        self._misses = 0
        self._vectorised = True  # until Arrow turns out not to have the function
        self._place()
        _tables[int(self._block[_NUMBER])] = self

    @property
    def address(self) -> int:
        """What generated code knows the table by. It stays the same."""
        return address(self._block)

    @property
    def nbytes(self) -> int:
        return self._words.nbytes + self._block.nbytes

    def word(self, code: int) -> int:
        """The code of the function's value for one string; an error if it is one."""
        self._make_room()
        at = 0 if code == NULL else code + 1
        if self._words[at] == UNKNOWN:
            text = None if code == NULL else self._dictionary.value(code)
            self._words[at] = encode(evaluate_scalar(self.function, {TEXT: text}), self.type, self._dictionary)
            self._make_room()
        return int(self._words[at])

    def cover(self, codes: Ints) -> None:
        """Compute the function for these strings, but for those for which it is an error. No code is NULL."""
        self._compute(np.unique(codes))

    def _compute(self, codes: Ints) -> None:
        self._make_room()
        codes = codes[self._words[codes + 1] == UNKNOWN]
        # Arrow marks the strings that it makes as such, which Python does not.
        if self._vectorised and len(codes) >= (1 if self.type == STRING else _MANY):
            codes = self._by_arrow(codes)
        for code in codes.tolist():
            try:
                self.word(code)
            except DataError:  # raised when the string is looked up
                pass

    def _by_arrow(self, codes: Ints) -> Ints:
        """Compute what Arrow can; the codes that remain."""
        texts = self._dictionary.texts(codes)
        try:
            values = evaluate_texts(self.function, texts)
        except BeyondAscii:
            ascii_ = is_ascii(texts)
            self._by_arrow(codes[ascii_])
            return codes[~ascii_]
        except CannotVectorise:
            self._vectorised = False
            return codes
        self._words[codes + 1] = self._codes(values)
        self._make_room()
        return codes[:0]

    def _codes(self, values: pa.Array) -> Ints:
        if self.type == STRING:
            return self._dictionary.codes(values, derived=True)
        codes: Ints = numbers(values.cast(pa.int64()))
        return codes

    def miss(self, code: int) -> int:
        """What compiled code calls for a string that it has not found."""
        try:
            self._misses += 1
            if code != NULL and self._vectorised:
                self._read_ahead(code)
            word = self.word(code)
            if self.error is None:
                self._block[_FAILED] = 0
            return word
        except BaseException as error:
            self.error = self.error or error
            return NULL

    def _read_ahead(self, code: int) -> None:
        # Numbers cost nothing to keep; strings do, so these are computed with more restraint.
        ahead = _AHEAD * (self._misses if self.type == STRING else self._misses**2)
        codes = np.arange(code, min(code + ahead, len(self._dictionary)))
        # What this or other functions have made is computed only if it is asked for, and binaries are no texts.
        self._compute(codes[self._dictionary.marks(codes) == 0])

    def forgotten_error(self) -> BaseException | None:
        error, self.error = self.error, None
        self._block[_FAILED] = 0
        return error

    def _make_room(self) -> None:
        wanted = len(self._dictionary) + 1
        if wanted > len(self._words):
            longer = np.full(max(wanted, 2 * len(self._words)), UNKNOWN, np.int64)
            longer[: len(self._words)] = self._words
            self._words = longer
            self._place()

    def _place(self) -> None:
        self._block[_WORDS] = address(self._words)
        self._block[_ROOM] = len(self._words)


class StringTables:
    """The tables of an engine, one for each function."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self._tables: dict[tuple[Scalar, Type], StringTable] = {}

    def table(self, function: Scalar, type_: Type) -> StringTable:
        found = self._tables.get((function, type_))
        if found is None:
            found = self._tables[function, type_] = StringTable(function, type_, self._dictionary)
        return found

    def failure(self) -> BaseException:
        """The error behind the flag `FAILED`, which is then forgotten.

        If there is none, we were interrupted before it could be kept: Python raises that before a call's first step.
        """
        errors = [error for table in self._tables.values() if (error := table.forgotten_error()) is not None]
        return errors[0] if errors else KeyboardInterrupt()

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in self._tables.values())


_numbers = count()
_tables: WeakValueDictionary[int, StringTable] = WeakValueDictionary()


def _miss(number: int, code: int) -> int:
    return _tables[number].miss(code)


_callback = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(_miss)
_MISS_ADDRESS = ctypes.cast(_callback, ctypes.c_void_p).value or 0
