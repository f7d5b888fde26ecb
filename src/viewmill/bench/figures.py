"""Figures as text, short enough for a table."""

from __future__ import annotations

import math

from viewmill.bench.results import Size

NOTHING = "-"


def number(value: float | None) -> str:
    """Three digits: `8.1M`, `780k`, `17`."""
    if value is None or math.isnan(value):
        return NOTHING
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= 0.9995 * unit:
            return f"{_three(value / unit)}{letter}"
    return _three(value)


def duration(seconds: float | None) -> str:
    if seconds is None or math.isnan(seconds):
        return NOTHING
    for unit, name in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= 0.9995 * unit:
            return f"{_three(seconds / unit)} {name}"
    return f"{_three(seconds * 1e6)} µs"


def times(ratio: float | None) -> str:
    if ratio is None or math.isnan(ratio):
        return NOTHING
    return f"{number(ratio)}x" if ratio >= 0.01 else "<0.01x"


def size_name(size: Size) -> str:
    """`single`, `1`, `10k`"""
    return f"{size[:-3]}k" if size.endswith("000") else size


def _three(value: float) -> str:
    """Three digits, or all before the point."""
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2g}" if value < 0.1 else f"{value:.2f}"
