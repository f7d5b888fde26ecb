"""The words of the text form: tokens, names and constants, each written and read.

2.5e-1 double      2.5 decimal      5d decimal of scale 0      5 integer      'it''s'      x'00ff'      `order id`
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Literal, TypeAlias

from viewmill.algebra.scalars import Const
from viewmill.errors import InternalError, ParseError, Span

Kind: TypeAlias = Literal["number", "string", "bytes", "quoted", "name", "symbol", "end"]

# `div`, `like` and their kin are operators, the others open a form of their own. Compared in lower case.
RESERVED = frozenset(
    "after and as case cast div else end escape exists false ilike in is "
    "like max min not null of or rlike sum then topk true when".split()
)

_TOKEN = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?d?)(?![A-Za-z0-9_])
    | (?P<bytes>[xX]'[0-9a-fA-F]*')
    | (?P<string>'(?:[^']|'')*')
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<symbol><=>|:=|<>|<=|>=|[-+*/%(),:;=<>{}\[\]])
    """,
    re.VERBOSE,
)
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Token:
    """`text` is as written, but for quoted names, which have lost their quotes."""

    kind: Kind
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """What the grammar compares: keywords in lower case, symbols as they are, '' for all else."""
        match self.kind:
            case "name":
                return self.text.lower()
            case "symbol":
                return self.text
            case _:
                return ""


def tokens(text: str) -> list[Token]:
    """All tokens, the last of kind `end`."""
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ParseError(f"unexpected character {text[at]!r}", span=Span(text, at, at + 1))
        at = match.end()
        kind = match.lastgroup
        if kind != "space":
            word = match.group()
            if kind == "quoted":
                word = word[1:-1].replace("``", "`")
            found.append(Token(kind, word, match.start(), at))  # type: ignore[arg-type]  # the groups are named for the kinds
    found.append(Token("end", "", at, at))
    return found


def show_name(name: str) -> str:
    """A name as it is, or in backquotes where it would be read as something else."""
    if _PLAIN.fullmatch(name) and name.lower() not in RESERVED:
        return name
    return quoted(name)


def quoted(name: str) -> str:
    if not name:
        raise InternalError("a name is empty")
    return "`" + name.replace("`", "``") + "`"


def show_const(const: Const) -> str:
    match const.value:
        case None:
            return "null"
        case bool(flag):
            return "true" if flag else "false"
        case int(number):
            return str(number)
        case float(number):
            return _show_double(number)
        case Decimal() as number:
            return _show_decimal(number)
        case str(text):
            return _show_string(text)
        case bytes(data):
            return f"x'{data.hex()}'"
        case datetime() as moment:  # before date, of which it is a kind
            return f"timestamp '{moment.isoformat(sep=' ')}'"
        case date() as day:
            return f"date '{day.isoformat()}'"
        case other:
            raise InternalError(f"a constant of type {type(other).__name__} has no text form")


def _show_string(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _show_double(number: float) -> str:
    if not math.isfinite(number):
        return f"double '{number!r}'"
    sign, digits, exponent = Decimal(repr(number)).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).lstrip("0") or "0"
    scale = exponent + len(text) - 1 if text != "0" else 0
    text = text.rstrip("0") or "0"
    point = "." if len(text) > 1 else ""
    return f"{'-' if sign else ''}{text[0]}{point}{text[1:]}e{scale}"


def _show_decimal(number: Decimal) -> str:
    if not number.is_finite():
        raise InternalError(f"the decimal {number} has no text form")
    if number.as_tuple().exponent == 0:
        return f"{number:f}d"
    text = f"{number:f}"
    return text if "." in text else f"{number}d"


def read_number(text: str) -> object:
    """The value of a number token, a minus sign in front allowed."""
    if text.endswith("d"):
        return Decimal(text[:-1])
    if "e" in text or "E" in text:
        return float(text)
    return Decimal(text) if "." in text else int(text)


def read_string(text: str) -> str:
    return text[1:-1].replace("''", "'")


def read_bytes(text: str) -> bytes:
    return bytes.fromhex(text[2:-1])


def read_typed(kind: str, text: str) -> object:
    """The value of `date '...'`, `timestamp '...'` or `double '...'`; ValueError if it has none."""
    match kind:
        case "date":
            return date.fromisoformat(text)
        case "timestamp":
            return datetime.fromisoformat(text)
        case _:
            return float(text)


TYPED = frozenset(("date", "timestamp", "double"))
