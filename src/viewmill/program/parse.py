"""Text to programs: reads back what `text.show` writes.

    without_notes(show(parse(text)))  ==  without_notes(text)        for every text that `show` wrote

Line breaks and notes (`-- ...`) are free, so that a program can be written down with explanations. Three things are not
in the text: how a statement came about and why, which part of a view a change can reach (all of it, as far as we know),
and fields of a relation that nothing reads, unless the caller gives them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from viewmill.algebra.nodes import DeltaRelation, Expr, Relation
from viewmill.algebra.schema import walk
from viewmill.algebra.text import parse as parse_expr
from viewmill.errors import ParseError, Span
from viewmill.program.nodes import Program, Statement, Store, Trigger, ViewPlan

_QUOTED = r"`(?:[^`]|``)+`"
_NAME = rf"(?:\w+|(?:d_)?{_QUOTED})"
_NOTE = re.compile(rf"('(?:[^']|'')*'|{_QUOTED})|[ \t]*--[^\n]*")
_HEAD = re.compile(
    rf"""^[ ]*(?:
        (?:(?P<kind>view|store|let)\ +)? (?P<target>{_NAME}\((?:[^()`]|{_QUOTED})*\)) \s* (?P<op>\+=|:=|=)(?=\s)
      | on\ +(?P<relation>{_NAME}) :
    )""",
    re.MULTILINE | re.VERBOSE,
)


class _Item(NamedTuple):
    """`on R:` has only a relation; all else has a target, an operator and an expression."""

    kind: str
    target: Relation | DeltaRelation
    op: str
    expr: Expr


def parse(text: str, fields: Mapping[str, tuple[str, ...]] | None = None) -> Program:
    stores: dict[str, Store] = {}
    views: dict[str, ViewPlan] = {}
    statements: dict[str, list[Statement]] = {}
    relation = ""
    for item in _items(without_notes(text)):
        match item:
            case str():
                relation = item
                statements[relation] = []
            case _Item("store", Relation(name, keys, _), "=", expr):
                stores[name] = Store(name, keys, expr)
            case _Item("view", Relation(name, columns, _), "=", expr):
                views[name] = ViewPlan(name, columns, expr, expr, expr, ())
            case _Item("let", DeltaRelation(name, vars_, _), "=", expr) if relation:
                statements[relation].append(Statement(name, vars_, "let", expr, "recursive", ""))
            case _Item("", Relation(name, vars_, _), "+=", expr) if relation:
                statements[relation].append(Statement(name, vars_, "+=", expr, "recursive", ""))
            case _Item("", Relation(name, vars_, _), ":=", expr) if relation:
                statements[relation].append(Statement(name, vars_, ":=", expr, "reevaluate", ""))
            case _Item(kind, target, op, _):
                raise ParseError(f"{kind or 'a statement'} of {target.name!r} with {op!r} cannot stand here")
    triggers = {name: Trigger(name, tuple(found)) for name, found in statements.items()}
    return Program(stores, triggers, views, {**_fields(stores, triggers), **(fields or {})})


def without_notes(text: str) -> str:
    """The text less everything from `--` to the end of its line, strings left alone."""
    return _NOTE.sub(lambda match: match[1] or "", text)


def _items(text: str) -> Iterator[str | _Item]:
    heads = list(_HEAD.finditer(text))
    before = text[: heads[0].start()] if heads else text
    if before.strip():
        at = len(before) - len(before.lstrip())
        raise ParseError("expected view, store or on", span=Span(text, at, at + 1))
    starts = [head.start() for head in heads] + [len(text)]
    for head, end in zip(heads, starts[1:], strict=True):
        body = text[head.end() : end]
        if head["relation"]:
            if body.strip():
                raise ParseError(f"expected a statement, found {body.strip().splitlines()[0]!r}")
            yield _unquoted(head["relation"])
        else:
            yield _Item(head["kind"] or "", _atom(head["target"]), head["op"], parse_expr(body))


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def _atom(text: str) -> Relation | DeltaRelation:
    found = parse_expr(text)
    assert isinstance(found, Relation | DeltaRelation), text
    return found


def _fields(stores: Mapping[str, Store], triggers: Mapping[str, Trigger]) -> dict[str, tuple[str, ...]]:
    """For every relation the fields that definitions and triggers read, in order of appearance."""
    read: dict[str, dict[str, None]] = {}
    exprs = [store.definition for store in stores.values()]
    for node in (node for expr in exprs for node in walk(expr)):
        if isinstance(node, Relation):
            read.setdefault(node.name, {}).update(dict.fromkeys(node.fields))
    for trigger in triggers.values():
        for node in (node for s in trigger.statements for node in walk(s.expr)):
            if isinstance(node, DeltaRelation) and node.name == trigger.relation:
                read.setdefault(node.name, {}).update(dict.fromkeys(node.fields))
    return {name: tuple(fields) for name, fields in read.items()}
