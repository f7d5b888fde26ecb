"""Formulas that aggregates are made of."""

from __future__ import annotations

from decimal import Decimal

import pytest

from viewmill.algebra.functions import evaluate_scalar
from viewmill.translate.results import average, variance
from viewmill.types import BIGINT, DOUBLE, INT, Type, decimal


def test_an_average_of_decimals_rounds_half_up_once() -> None:
    row = {"total": Decimal("0.05"), "count": 6}
    assert evaluate_scalar(average("total", "count", decimal(8, 6)), row) == Decimal("0.008333")
    row = {"total": Decimal("0.01"), "count": 8}
    assert evaluate_scalar(average("total", "count", decimal(8, 4)), row) == Decimal("0.0013")


def test_an_average_of_integers_is_a_double() -> None:
    assert evaluate_scalar(average("total", "count", DOUBLE), {"total": 7, "count": 2}) == 3.5


@pytest.mark.parametrize(
    ("values", "total", "squares"),
    [(INT, 6, 14), (decimal(4, 1), Decimal("6.0"), Decimal("14.00")), (DOUBLE, 6.0, 14.0)],
)
def test_variance(values: Type, total: object, squares: object) -> None:
    row = {"n": 3, "s": total, "q": squares}
    assert evaluate_scalar(variance("n", "s", "q", values, sample=True), row) == 1.0
    assert evaluate_scalar(variance("n", "s", "q", values, sample=False), row) == pytest.approx(2 / 3)


def test_a_variance_of_large_integers_keeps_its_digits() -> None:
    big = 3_000_000_000
    values = (big, big + 1, big + 2)
    row = {"n": 3, "s": sum(values), "q": sum(v * v for v in values)}
    assert evaluate_scalar(variance("n", "s", "q", BIGINT, sample=True), row) == 1.0


def test_a_variance_of_doubles_is_not_negative() -> None:
    row = {"n": 3, "s": 0.30000000000000004, "q": 0.03}
    assert evaluate_scalar(variance("n", "s", "q", DOUBLE, sample=False), row) == 0.0
