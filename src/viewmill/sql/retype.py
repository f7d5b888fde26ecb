"""The same query with its columns in other types."""

from __future__ import annotations

from dataclasses import replace

from viewmill.sql.bound import Column, Derived, Output, Query, Select, Values
from viewmill.sql.operators import convert
from viewmill.sql.scope import Context
from viewmill.types import Type


def with_types(context: Context, query: Query, types: tuple[Type, ...]) -> Query:
    """`query` with each column converted, after DISTINCT and set operations: conversion may make rows equal."""
    if all(column.type == type_ for column, type_ in zip(query.columns, types, strict=True)):
        return query
    match query:
        case Select(distinct=False):
            pairs = zip(query.outputs, types, strict=True)
            return replace(query, outputs=tuple(replace(out, expr=convert(out.expr, type_)) for out, type_ in pairs))
        case Values():
            rows = tuple(
                tuple(convert(value, type_) for value, type_ in zip(row, types, strict=True)) for row in query.rows
            )
            fields = tuple(replace(field, type=type_) for field, type_ in zip(query.columns, types, strict=True))
            return Values(rows, fields)
    outputs = tuple(
        Output(field.name, context.var(field.name), convert(Column(field.var, field.type, field.nullable), type_))
        for field, type_ in zip(query.columns, types, strict=True)
    )
    return select_from(query, outputs)


def select_from(query: Query, outputs: tuple[Output, ...], alias: str = "") -> Select:
    """`SELECT outputs FROM (query) alias`"""
    return Select(Derived(query, alias), None, None, (), None, outputs, distinct=False)
