"""Every operator and function by name, and what rewrites may assume of them."""

from __future__ import annotations

from collections.abc import Callable

from viewmill.algebra.functions import dates, logic, numbers, strings

_WITHOUT_NULL = {**numbers.STRICT, **logic.STRICT, **strings.STRICT, **dates.STRICT}


def _null_in_null_out(function: Callable[..., object]) -> Callable[..., object]:
    def strict(*args: object) -> object:
        return None if any(arg is None for arg in args) else function(*args)

    return strict


FUNCTIONS: dict[str, Callable[..., object]] = {
    **{op: _null_in_null_out(function) for op, function in _WITHOUT_NULL.items()},
    **logic.NULL_AWARE,
    **strings.NULL_AWARE,
}

# NULL whenever any argument is NULL. (The others may be NULL too: the logarithm of 0 is.)
STRICT: frozenset[str] = frozenset(_WITHOUT_NULL)

# Never an error for arguments of the right types, so they may be computed earlier, or for more rows, than SQL says.
# Left out: what divides, what leaves bigint or the calendar (years 1 to 9999), what reads text, what is there to fail.
TOTAL: frozenset[str] = frozenset(FUNCTIONS) - {
    *("/", "mean", "%", "div", "pmod", "ceil", "floor"),
    *("date_add", "add_months", "timestamp_add", "trunc", "date_trunc"),
    *("to_date", "split_part", "rlike", "repeat", "lpad", "rpad"),
    "assert_single",
}
