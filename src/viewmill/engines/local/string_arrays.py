"""Functions of one string, for a whole array of strings by Arrow, where Arrow computes the same.

    evaluate_texts(text like '%special%requests%', ["special requests", "x"])  ->  [true, false]

Law: for every text t, the result is that of `evaluate_scalar` with `text` being t. What Arrow has no function for, or
one that differs somewhere, is `CannotVectorise`; so are NULL constants. There are no NULLs among the texts, and so
none in the results.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from viewmill.algebra.scalars import Call, Cast, Const, Scalar, Var
from viewmill.numbers import flags

TEXT = "text"
"""The variable that stands for the string."""


class CannotVectorise(Exception):
    """The function is to be computed string by string."""


class BeyondAscii(CannotVectorise):
    """Not for these texts, but for those that are ASCII."""


def evaluate_texts(scalar: Scalar, texts: pa.Array) -> pa.Array:
    """The function for every text."""
    match scalar:
        case Var(name) if name == TEXT:
            return texts
        case Call("and" | "or" as op, args):
            both = pc.and_ if op == "and" else pc.or_
            return reduce(both, (evaluate_texts(arg, texts) for arg in args))
        case Call("not", (arg,)):
            return pc.invert(evaluate_texts(arg, texts))
        case Call("=" | "<>" | "<" | "<=" | ">" | ">=" as op, (left, Const(str() as text))):
            return _COMPARE[op](_strings(left, texts), _scalar(text, texts))
        case Call("in", (arg, *items)):
            return pc.is_in(_strings(arg, texts), value_set=pa.array([_text(item) for item in items], texts.type))
        case Call("like", (arg, Const(str() as pattern))):
            return like(_strings(arg, texts), pattern)
        case Call("like", (arg, Const(str() as pattern), Const(str() as escape))):
            return like(_strings(arg, texts), pattern, escape)
        case Call("startswith" | "endswith" | "contains" as op, (arg, Const(str() as part))):
            return _PARTS[op](_strings(arg, texts), part)
        case Call("length", (arg,)):
            return pc.utf8_length(_strings(arg, texts))
        case Call("substring", (arg, Const(int() as position))):
            return substring(_strings(arg, texts), position, None)
        case Call("substring", (arg, Const(int() as position), Const(int() as length))):
            return substring(_strings(arg, texts), position, length)
        case Call("left", (arg, Const(int() as length))):
            return _slice(_strings(arg, texts), 0, max(length, 0))
        case Call("right", (arg, Const(int() as length))):
            return _slice(_strings(arg, texts), -length, None) if length > 0 else _slice(_strings(arg, texts), 0, 0)
        case Call("upper" | "lower" as op, (arg,)):
            return _case(op, _strings(arg, texts))
        case Call() | Cast() | Const() | Var():
            raise CannotVectorise


_COMPARE: dict[str, Callable[[pa.Array, pa.Scalar], pa.Array]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}

_PARTS: dict[str, Callable[[pa.Array, str], pa.Array]] = {
    "startswith": lambda texts, part: pc.starts_with(texts, pattern=part),
    "endswith": lambda texts, part: pc.ends_with(texts, pattern=part),
    "contains": lambda texts, part: pc.match_substring(texts, pattern=part),
}


def _strings(scalar: Scalar, texts: pa.Array) -> pa.Array:
    values = evaluate_texts(scalar, texts)
    if values.type != texts.type:
        raise CannotVectorise
    return values


def _scalar(text: str, texts: pa.Array) -> pa.Scalar:
    return pa.scalar(text, texts.type)


def _text(item: Scalar) -> str:
    if isinstance(item, Const) and isinstance(item.value, str):
        return item.value
    raise CannotVectorise


# --- pieces of text


def substring(texts: pa.Array, position: int, length: int | None) -> pa.Array:
    """Arrow counts like Python: from 0, and from the end if negative."""
    start = position - 1 if position > 0 else position
    if length is None:
        return _slice(texts, start, None)
    stop = start + length
    if start >= 0:
        return _slice(texts, start, max(stop, start))
    # Counted from the end, what stops at the end or behind it has no stop.
    return _slice(texts, start, stop if stop < 0 else None)


def _slice(texts: pa.Array, start: int, stop: int | None) -> pa.Array:
    if stop is not None and (stop <= start if (start < 0) == (stop < 0) else False):
        return pa.repeat(_scalar("", texts), len(texts))
    return pc.utf8_slice_codeunits(texts, start, stop)


def _case(op: str, texts: pa.Array) -> pa.Array:
    """Arrow changes one character into one; only in ASCII is that all there is to it."""
    if not is_ascii(texts).all():
        raise BeyondAscii
    return pc.ascii_upper(texts) if op == "upper" else pc.ascii_lower(texts)


def is_ascii(texts: pa.Array) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = flags(pc.string_is_ascii(texts))
    return found


# --- like


def like(texts: pa.Array, pattern: str, escape: str = "\\") -> pa.Array:
    """`%` is any text, `_` any character; after the escape a character stands for itself."""
    pieces = like_pieces(pattern, escape)
    literals = [piece for piece in pieces if piece not in (ANY_TEXT, ANY_CHARACTER)]
    match ["%" if piece is ANY_TEXT else "_" if piece is ANY_CHARACTER else "x" for piece in pieces]:
        case []:
            return pc.equal(texts, _scalar("", texts))
        case ["%"]:
            return pa.repeat(pa.scalar(True), len(texts))
        case ["x"]:
            return pc.equal(texts, _scalar(str(literals[0]), texts))
        case ["x", "%"]:
            return pc.starts_with(texts, pattern=literals[0])
        case ["%", "x"]:
            return pc.ends_with(texts, pattern=literals[0])
        case ["%", "x", "%"]:
            return pc.match_substring(texts, pattern=literals[0])
        case _:
            return pc.match_substring_regex(texts, pattern=_regex(pieces))


class _Wild:
    """A piece of a pattern that is no text."""


ANY_TEXT, ANY_CHARACTER = _Wild(), _Wild()


def like_pieces(pattern: str, escape: str) -> list[str | _Wild]:
    """A pattern as texts and wild cards; texts and `%` never stand side by side."""
    pieces: list[str | _Wild] = []
    at = 0
    while at < len(pattern):
        if escape and pattern.startswith(escape, at) and at + len(escape) < len(pattern):
            at += len(escape)
            piece: str | _Wild = pattern[at]
        else:
            piece = {"%": ANY_TEXT, "_": ANY_CHARACTER}.get(pattern[at], pattern[at])
        at += 1
        last = pieces[-1] if pieces else None
        if isinstance(piece, str) and isinstance(last, str):
            pieces[-1] = last + piece
        elif not (piece is ANY_TEXT and last is ANY_TEXT):
            pieces.append(piece)
    return pieces


def _regex(pieces: list[str | _Wild]) -> str:
    """For RE2, where `\\x{..}` is a character by its number. An open end is cheaper than one that is to be matched."""
    body = pieces[1:] if pieces[0] is ANY_TEXT else pieces
    body = body[:-1] if body and body[-1] is ANY_TEXT else body
    start = "" if pieces[0] is ANY_TEXT else "^"
    end = "" if len(pieces) > 1 and pieces[-1] is ANY_TEXT else "$"
    return "(?s)" + start + "".join(map(_regex_piece, body)) + end


def _regex_piece(piece: str | _Wild) -> str:
    if isinstance(piece, _Wild):
        return ".*?" if piece is ANY_TEXT else "."
    return "".join(c if c.isascii() and c.isalnum() else f"\\x{{{ord(c):x}}}" for c in piece)
