"""Date and timestamp functions. Timestamps have no zone; those of Spark are taken in UTC."""

from __future__ import annotations

import calendar
import math
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import TypeVar

from viewmill.algebra.functions.casts import to_date
from viewmill.errors import DataError

Moment = TypeVar("Moment", date, datetime)

_EPOCH = date(1970, 1, 1)


def as_day(moment: date) -> date:
    """The day of a date or of a timestamp."""
    return moment.date() if isinstance(moment, datetime) else moment


def date_add(moment: Moment, days: int) -> Moment:
    return _shift(moment, f"{days} days", lambda: moment + timedelta(days=days))


def timestamp_add(moment: datetime, microseconds: int) -> datetime:
    return _shift(moment, f"{microseconds} microseconds", lambda: moment + timedelta(microseconds=microseconds))


def add_months(moment: Moment, months: int) -> Moment:
    """The same day of another month, or its last day if it has no such day."""
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)

    def moved() -> Moment:
        return moment.replace(year=year, month=month + 1, day=min(moment.day, _days_in(year, month + 1)))

    return _shift(moment, f"{months} months", moved)


def _shift(moment: Moment, step: str, moved: Callable[[], Moment]) -> Moment:
    try:
        return moved()
    except (OverflowError, ValueError):
        raise DataError(f"{moment} plus {step} is outside of the years 1 to 9999") from None


def _days_in(year: int, month: int) -> int:
    return calendar.monthrange(year, month)[1] if 1 <= year <= 9999 else 31


def datediff(end: date, start: date) -> int:
    return (as_day(end) - as_day(start)).days


def last_day(moment: date) -> date:
    return date(moment.year, moment.month, _days_in(moment.year, moment.month))


def months_between(end: date, start: date, round_off: bool = True) -> float:
    """Whole months if the days of the month are the same or both the last, else months of 31 days."""
    months = float((end.year - start.year) * 12 + end.month - start.month)
    if end.day == start.day or (as_day(end) == last_day(end) and as_day(start) == last_day(start)):
        return months
    seconds = (end.day - start.day) * 86400 + _seconds_of_day(end) - _seconds_of_day(start)
    months += seconds / (31 * 86400)
    return math.floor(months * 1e8 + 0.5) / 1e8 if round_off else months


def _seconds_of_day(moment: date) -> int:
    return moment.hour * 3600 + moment.minute * 60 + moment.second if isinstance(moment, datetime) else 0


_UNITS = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    "quarter": "quarter",
    **dict.fromkeys(("month", "mm", "mon"), "month"),
    "week": "week",
    **dict.fromkeys(("day", "dd"), "day"),
}
_CLOCK_UNITS = {
    "hour": {"minute": 0, "second": 0, "microsecond": 0},
    "minute": {"second": 0, "microsecond": 0},
    "second": {"microsecond": 0},
}


def trunc(moment: date, unit: str) -> date | None:
    """The first day of the year, quarter, month or week; NULL for any other unit."""
    known = _UNITS.get(unit.lower())
    return None if known in (None, "day") else _first_day(as_day(moment), known or "")


def date_trunc(unit: str, moment: datetime) -> datetime | None:
    """The start of the unit that the timestamp is in; NULL if there is no such unit."""
    unit = unit.lower()
    if unit in _UNITS:
        first = _first_day(moment.date(), _UNITS[unit])
        return datetime(first.year, first.month, first.day)
    if unit in _CLOCK_UNITS:
        return moment.replace(**_CLOCK_UNITS[unit])  # type: ignore[arg-type]  # tzinfo is not among them
    if unit == "millisecond":
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    return moment if unit == "microsecond" else None


def _first_day(day: date, unit: str) -> date:
    match unit:
        case "year":
            return day.replace(month=1, day=1)
        case "quarter":
            return day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)
        case "month":
            return day.replace(day=1)
        case "week":
            return date_add(day, -day.weekday())
        case _:
            return day


STRICT: dict[str, Callable[..., object]] = {
    "year": lambda d: d.year,
    "month": lambda d: d.month,
    "day": lambda d: d.day,
    "quarter": lambda d: (d.month - 1) // 3 + 1,
    "dayofweek": lambda d: d.isoweekday() % 7 + 1,  # Sunday is 1
    "dayofyear": lambda d: d.timetuple().tm_yday,
    "weekofyear": lambda d: d.isocalendar().week,
    "hour": lambda t: t.hour,
    "minute": lambda t: t.minute,
    "second": lambda t: t.second,
    "date_add": date_add,
    "add_months": add_months,
    "timestamp_add": timestamp_add,
    "datediff": datediff,
    "trunc": trunc,
    "date_trunc": date_trunc,
    "last_day": last_day,
    "months_between": months_between,
    "to_date": to_date,
    "unix_date": lambda d: (as_day(d) - _EPOCH).days,
}
