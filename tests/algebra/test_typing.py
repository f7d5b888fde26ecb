"""Types of variables and weights follow from the catalog and the operations."""

from __future__ import annotations

import pytest

from viewmill.algebra.text import parse
from viewmill.algebra.typing import variable_types, weight_type
from viewmill.types import BIGINT, DATE, DOUBLE, INT, STRING, Type, decimal

FIELDS = {"a": INT, "b": BIGINT, "p": decimal(15, 2), "q": decimal(15, 2), "f": DOUBLE, "s": STRING, "d": DATE}


def field_type(_relation: str, field: str) -> Type:
    return FIELDS[field]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Sum[a](R(a, b))", BIGINT),
        ("Sum[a](R(a, b) * b)", BIGINT),
        ("Sum[a](R(a, p) * p)", decimal(38, 2)),
        ("Sum[a](R(a, p, q) * p * [1 - q])", decimal(38, 4)),
        ("Sum[a](R(a, p, f) * f)", DOUBLE),
        ("Sum[a](R(a, p) * p + R(a, b) * b)", decimal(38, 2)),
        ("Sum[](R(a, p) * [case when a = 1 then p else 0 end])", decimal(38, 2)),
        ("Sum[](R(a, p) * [cast(p / 3 as decimal(20,6))])", decimal(38, 6)),
        ("Exists(Sum[a](R(a, p) * p))", BIGINT),
        ("TopK[a desc; 3](Sum[a](R(a, p)))", BIGINT),
    ],
)
def test_weights(text, expected):
    assert weight_type(parse(text), field_type) == expected


@pytest.mark.parametrize(
    ("text", "var", "expected"),
    [
        ("R(a, s) * (x := [upper(s)])", "x", STRING),
        ("R(d) * (x := [year(d)])", "x", INT),
        ("(x := [a + 1]) * R(a)", "x", BIGINT),  # before the rows that bind it
        ("(x := Sum[](R(a, p) * p))", "x", decimal(38, 2)),
        ("(x := min s of R(a, s))", "x", STRING),
        ("TopK[s, x; 3](R(a: x, s))", "s", STRING),
        ("R(a) * (s := null) + R(a, s)", "s", STRING),  # NULL has whatever type it stands for
        ("R(a) * (x := [a < 3])", "x", Type("boolean")),
    ],
)
def test_variables(text, var, expected):
    assert variable_types(parse(text), field_type)[var] == expected
