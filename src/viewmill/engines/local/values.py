"""Values as 64-bit codes, and back. See `scalars.py` for what a code is."""

from __future__ import annotations

import struct
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Protocol

from viewmill.algebra.functions import EXACT, NAN
from viewmill.engines.local.scalars import NULL
from viewmill.errors import DataError
from viewmill.types import Type

LEAST, MOST = -(2**63) + 1, 2**63 - 1
"""The least and the greatest number that is a code."""

_EPOCH_DAY = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1)


class TooWide(DataError):
    """A number that fits its type has no code: it needs more than 64 bits."""


class Strings(Protocol):
    """Strings and binaries by number: a `dictionary.Dictionary`."""

    def code(self, value: str | bytes) -> int: ...

    def value(self, code: int) -> str | bytes: ...


def encode(value: object, type_: Type, dictionary: Strings) -> int:
    match value:
        case None:
            return NULL
        case str() | bytes():
            return dictionary.code(value)
        case float():
            return _double_bits(value)
        case Decimal():
            scaled = value.scaleb(type_.scale, EXACT)
            return _fitting(int(scaled) if scaled == int(scaled) else MOST + 1, value)
        case int() if type_.is_floating:
            return _double_bits(float(value))
        case int() if type_.is_decimal:
            return _fitting(value * 10**type_.scale, value)
        case int():
            return _fitting(int(value), value)
        case datetime():
            return (value - _EPOCH) // timedelta(microseconds=1)
        case date():
            return (value - _EPOCH_DAY).days
        case _:
            raise DataError(f"cannot keep the value {value!r}")


def decode(code: int, type_: Type, dictionary: Strings) -> object:
    if code == NULL:
        return None
    match type_.name:
        case "string" | "binary":
            return dictionary.value(code)
        case "float" | "double":
            value: float = struct.unpack("<d", struct.pack("<q", code))[0]
            return NAN if value != value else value
        case "decimal":
            return Decimal(code).scaleb(-type_.scale, EXACT)
        case "boolean":
            return bool(code)
        case "date":
            return _EPOCH_DAY + timedelta(days=code)
        case "timestamp":
            return _EPOCH + timedelta(microseconds=code)
        case _:
            return code


def decode_weight(weight: int | float, type_: Type) -> int | float | Decimal:
    return Decimal(int(weight)).scaleb(-type_.scale, EXACT) if type_.is_decimal else weight


def _fitting(code: int, value: object) -> int:
    if not LEAST <= code <= MOST:
        raise TooWide(f"the number {value} has more than 64 bits")
    return code


def _double_bits(value: float) -> int:
    if value == 0.0:
        return 0
    if value != value:
        return 0x7FF8000000000000
    code: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return code
