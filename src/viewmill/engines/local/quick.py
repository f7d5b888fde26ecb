"""The quick ways into the stores of a relation: for a single row, and for whole columns of plain values.

For single rows a Python function is written that takes a row of plain values (an int for a bigint, a Decimal for a
decimal, and so on) and packs the codes of the columns in use into a buffer, which is the batch: of one row, or of two
where one takes the place of the other. It takes a few microseconds to the committed stores. Anything else about a row
is for the general path, which knows what to do and what to say. If the rows of a table are kept, values must be just as
they are kept: a decimal has all of its digits.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from viewmill.algebra.functions import EXACT
from viewmill.catalog import ColumnInfo, RelationInfo
from viewmill.engines.local.dictionary import Dictionary
from viewmill.engines.local.indexes import address
from viewmill.engines.local.scalars import NULL
from viewmill.types import INTEGER_BITS

Encode = Callable[[Sequence[object], int, int], bool]
"""Put a row with a weight into the buffer, so many bytes behind its start; false if it is not made of plain values."""

_FIRST_DAY = date(1970, 1, 1).toordinal()
_REMEMBERED = 4096  # decimals of a column whose codes are looked up: that takes a third of the time


class QuickWays(NamedTuple):
    """Functions that take a change of a relation, whole and at once; false: nothing was done."""

    take: Callable[[Sequence[object], int], bool]
    """A row with its weight."""
    exchange: Callable[[Sequence[object], Sequence[object]], bool]
    """A row that is there, for another."""
    take_columns: Callable[[object, int], bool]
    """Arrow's columns, with the weight that all rows have."""
    keep: object
    """What they work on, by address."""


class OneRow:
    """Room for a row of a relation, or two. `address` and `encode` are what is needed to run it."""

    def __init__(self, info: RelationInfo, used: frozenset[str], dictionary: Dictionary) -> None:
        places = [i for i, column in enumerate(info.columns) if column.name in used]
        stride = len(places) + 1
        self.size = 8 * stride
        """Bytes of a row."""
        self._buffer = bytearray(2 * self.size)
        base = address(np.frombuffer(self._buffer, np.uint8))
        self._words = np.zeros(2 * len(info.columns) + 2, np.int64)
        for at, place in enumerate([*places, len(info.columns)]):
            self._words[2 * place : 2 * place + 2] = base + 8 * at, stride
        self.address = address(self._words)
        self.encode = _encoder(info, places, self._buffer, dictionary) if _is_plain(info) else _no_row


def _is_plain(info: RelationInfo) -> bool:
    """Whether rows are of types that are quickly told."""
    known = ("decimal", "string", "date", "double", "boolean", *INTEGER_BITS)
    return all(c.type.name in known for c in info.columns)


def _no_row(row: Sequence[object], weight: int, at: int) -> bool:
    return False


def _encoder(info: RelationInfo, places: list[int], buffer: bytearray, dictionary: Dictionary) -> Encode:
    names: dict[str, Any] = {"Decimal": Decimal, "date": date, "code": dictionary.code, "is_text": _is_text}
    names["whole_number"] = _no_number if info.stored else _whole_number
    form = "".join("d" if info.columns[i].type.is_floating else "q" for i in places)
    names["pack"] = struct.Struct(f"={form}q").pack_into
    names["buffer"] = buffer
    names |= {f"known_v{i}": {} for i, column in enumerate(info.columns) if column.type.name == "decimal"}
    lines = ["def encode(row, weight, at):", f"    if len(row) != {len(info.columns)}:", "        return False"]
    lines += [f"    {''.join(f'v{i}, ' for i in range(len(info.columns)))} = row"]
    for i, column in enumerate(info.columns):
        lines += [f"    {line}" for line in _column(f"v{i}", column, used=i in places)]
    lines += [f"    pack(buffer, at, {''.join(f'v{i}, ' for i in places)}weight)", "    return True"]
    exec("\n".join(lines), names)
    encode: Encode = names["encode"]
    return encode


def _whole_number(value: Decimal, unit: int) -> int:
    """How often a unit is in a value; `ValueError` if not exactly so."""
    scaled = EXACT.multiply(value, unit)  # the caller's own context may round to a few digits
    whole = int(scaled)
    if whole != scaled:
        raise ValueError(value)
    return whole


def _no_number(value: Decimal, unit: int) -> int:
    """A decimal with other digits than those of its column is not kept as it is."""
    raise ValueError(value)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def _column(v: str, column: ColumnInfo, *, used: bool) -> list[str]:
    lines = _plain(v, column, used=used)
    if not column.nullable or column.type.is_floating:  # NULL is no double: it has a code, but no value to pack
        return lines
    return [f"if {v} is None:", f"    {v} = {NULL}" if used else "    pass", f"el{lines[0]}", *lines[1:]]


def _plain(v: str, column: ColumnInfo, *, used: bool) -> list[str]:
    """Lines that turn a value into its code, or leave the function."""
    type_ = column.type
    match type_.name:
        case "decimal":
            # Its hash takes four times as long as its text, and the product with a power of ten as long again.
            limit, dot = min(10**type_.precision, 2**63), -type_.scale - 1
            plain = f'text[{dot}:{dot + 1}] == "."' if type_.scale else '"." not in text'
            return [
                f"if type({v}) is Decimal:",
                f"    text = str({v})",
                f"    whole = known_{v}.get(text)",
                "    if whole is None:",
                "        try:",
                f'            whole = int(text.replace(".", "") if {plain} else whole_number({v}, {10**type_.scale}))',
                "        except (ValueError, ArithmeticError):",
                "            return False",
                f'        if not -{limit} < whole < {limit} or (whole == 0 and text[0] == "-"):',
                "            return False",
                f"        if len(known_{v}) < {_REMEMBERED}:",
                f"            known_{v}[text] = whole",
                f"    {v} = whole",
                "else:",
                "    return False",
            ]
        case "string":
            is_text = f"type({v}) is str and ({v}.isascii() or is_text({v}))"
            return [f"if {is_text}:", f"    {v} = code({v})" if used else "    pass", "else:", "    return False"]
        case "date":
            lines = [f"if type({v}) is not date:", "    return False"]
            return [*lines, "else:", f"    {v} = {v}.toordinal() - {_FIRST_DAY}"] if used else lines
        case "double":
            # Zero has one sign, and NaN one form, which is not that of every NaN.
            return [f"if type({v}) is not float or {v} != {v}:", "    return False", f"{v} += 0.0"]
        case "boolean":
            return [f"if type({v}) is not bool:", "    return False"]
        case _:
            bound = 2 ** (INTEGER_BITS[type_.name] - 1)
            low = -bound + 1 if bound == 2**63 else -bound
            return [f"if type({v}) is not int or not {low} <= {v} < {bound}:", "    return False"]
