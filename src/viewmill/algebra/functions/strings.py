"""String functions. Positions count code points from 1, as in Spark."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from viewmill.errors import DataError


def concat(*args: str | bytes) -> str | bytes:
    if args and isinstance(args[0], bytes):
        return b"".join(args)  # type: ignore[arg-type]  # well-typed: all are bytes
    return "".join(args)  # type: ignore[arg-type]


def concat_ws(separator: str | None, *args: str | None) -> str | None:
    """NULL arguments are left out; a NULL separator makes the whole NULL."""
    return None if separator is None else separator.join(arg for arg in args if arg is not None)


# Only the space is trimmed by default: a tab stays, as in Spark.
def trim(text: str, characters: str = " ") -> str:
    return text.strip(characters) if characters else text


def ltrim(text: str, characters: str = " ") -> str:
    return text.lstrip(characters) if characters else text


def rtrim(text: str, characters: str = " ") -> str:
    return text.rstrip(characters) if characters else text


def substring(text: str, position: int, length: int | None = None) -> str:
    """A negative position counts from the end; one before the start uses up length; 0 is 1."""
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    end = len(text) if length is None else start + length
    return text[max(start, 0) : max(end, 0)]


def left(text: str, length: int) -> str:
    return text[: max(length, 0)]


def right(text: str, length: int) -> str:
    return text[-length:] if length > 0 else ""


def replace(text: str, old: str, new: str = "") -> str:
    return text.replace(old, new) if old else text


def lpad(text: str, length: int, pad: str = " ") -> str:
    return _padding(text, length, pad) + left(text, length)


def rpad(text: str, length: int, pad: str = " ") -> str:
    return left(text, length) + _padding(text, length, pad)


def _padding(text: str, length: int, pad: str) -> str:
    missing = max(length - len(text), 0)
    return (pad * missing)[:missing]


def split_part(text: str, delimiter: str, number: int) -> str:
    """Part `number` from 1, or from the end if negative; '' if there is no such part."""
    if number == 0:
        raise DataError("split_part counts from 1 or from -1, not from 0")
    parts = text.split(delimiter) if delimiter else [text]
    index = number - 1 if number > 0 else len(parts) + number
    return parts[index] if 0 <= index < len(parts) else ""


def initcap(text: str) -> str:
    """A capital after every space, small letters elsewhere."""
    return " ".join(_title(word[:1]) + word[1:] for word in text.lower().split(" "))


def _title(letter: str) -> str:
    upper = letter.title()
    return upper if len(upper) == 1 else letter


def translate(text: str, old: str, new: str) -> str:
    """Each character of `old` becomes the one at the same place in `new`, or nothing. The first of a kind counts."""
    table: dict[int, str] = {}
    for index, character in enumerate(old):
        table.setdefault(ord(character), new[index : index + 1])
    return text.translate(table)


def like(text: str, pattern: str, escape: str = "\\") -> bool:
    """`%` is any text, `_` any character; after the escape a character stands for itself."""
    return _like(pattern, escape).fullmatch(text) is not None


def ilike(text: str, pattern: str, escape: str = "\\") -> bool:
    return like(text.lower(), pattern.lower(), escape.lower())


@lru_cache(maxsize=1000)
def _like(pattern: str, escape: str) -> re.Pattern[str]:
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        if escape and pattern.startswith(escape, at) and at + len(escape) < len(pattern):
            at += len(escape)
            parts.append(re.escape(pattern[at]))
        else:
            parts.append({"%": ".*", "_": "."}.get(pattern[at]) or re.escape(pattern[at]))
        at += 1
    return re.compile("".join(parts), re.DOTALL)


def rlike(text: str, pattern: str) -> bool:
    """Whether some part of the text matches. Python's regular expressions, which agree with Java's on common ground."""
    return _regex(pattern).search(text) is not None


@lru_cache(maxsize=1000)
def _regex(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise DataError(f"{pattern!r} is not a regular expression: {error}") from None


STRICT: dict[str, Callable[..., object]] = {
    "concat": concat,
    "upper": str.upper,
    "lower": str.lower,
    "length": len,
    "trim": trim,
    "ltrim": ltrim,
    "rtrim": rtrim,
    "substring": substring,
    "left": left,
    "right": right,
    "replace": replace,
    "instr": lambda text, part: text.find(part) + 1,
    "lpad": lpad,
    "rpad": rpad,
    "reverse": lambda text: text[::-1],
    "repeat": lambda text, times: text * times,
    "split_part": split_part,
    "startswith": str.startswith,
    "endswith": str.endswith,
    "contains": lambda text, part: part in text,
    "initcap": initcap,
    "ascii": lambda text: ord(text[0]) if text else 0,
    "translate": translate,
    "like": like,
    "ilike": ilike,
    "rlike": rlike,
}

NULL_AWARE: dict[str, Callable[..., object]] = {"concat_ws": concat_ws}
