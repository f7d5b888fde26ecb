"""Break the lines of long expressions where their structure does.

    Q(b) += Sum[b](d_R(a, b) * M(b) * N(b))        Q(b) +=
                                            =>       Sum[b](
                                                       d_R(a, b)
                                                       * M(b)
                                                       * N(b)
                                                     )

The text form does not mind line breaks, so what is laid out still parses.
"""

from __future__ import annotations

import re

WIDTH = 110
_HEAD = re.compile(r"(?P<indent> *)(?P<head>(?:(?:view|store|let) )?\S+\([^()]*\) (?:=|\+=|:=)) (?P<body>.*)")


def layout(text: str) -> str:
    return "\n".join(laid for line in text.splitlines() for laid in _line(line))


def _line(line: str) -> list[str]:
    if len(line) <= WIDTH:
        return [line]
    match = _HEAD.fullmatch(line)
    if match is None:
        return _expr(line, "")
    body, dashes, note = match["body"].partition("  -- ")
    indent = match["indent"]
    return [f"{indent}{match['head']}{dashes}{note}", *_expr(body, indent + "  ")]


def _expr(text: str, indent: str) -> list[str]:
    if len(indent) + len(text) <= WIDTH:
        return [indent + text]
    for operators in ("+-", "*"):
        parts = _split(text, operators)
        if len(parts) > 1:
            return [line for part in parts for line in _expr(part, indent)]
    opened, inner, closed = _open(text)
    if not inner:
        return [indent + text]
    return [indent + opened, *_expr(inner, indent + "  "), indent + closed]


def _split(text: str, operators: str) -> list[str]:
    """The operands, each but the first with its operator in front, which stays with what follows."""
    parts, start = [], 0
    for at, depth in _depths(text):
        if depth == 0 and text[at] in operators and text[at - 1 : at + 2] == f" {text[at]} ":
            parts.append(text[start:at].rstrip())
            start = at
    return [*parts, text[start:]]


def _open(text: str) -> tuple[str, str, str]:
    """`(n := Sum[](`, what is inside, and `))`: all brackets that open one after the other and close together."""
    opened, closed = "", ""
    while text.endswith(")"):
        at = next((at for at, depth in _depths(text) if text[at] == "(" and depth == 1), None)
        if at is None or len(_split(opened and text, "+-*")) > 1:
            break
        opened, text, closed = opened + text[: at + 1], text[at + 1 : -1], ")" + closed
    return opened, text if opened else "", closed


def _depths(text: str) -> list[tuple[int, int]]:
    """Every place outside of strings, with the number of brackets open there."""
    found, depth, quote = [], 0, ""
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
            continue
        if char in "'`":
            quote = char
            continue
        depth += char in "([{"
        found.append((at, depth))
        depth -= char in ")]}"
    return found
