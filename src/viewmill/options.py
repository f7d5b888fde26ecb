"""The WITH options of CREATE MATERIALIZED VIEW.

maintain = 'auto' | 'incremental' | 'recursive' | 'first_order' | 'reevaluate'
refresh = 'on commit'
"""

from __future__ import annotations

from collections.abc import Iterable

from viewmill.errors import BindError, UnsupportedError
from viewmill.sql.statements import Option
from viewmill.wording import nearest, quoted

MAINTAIN = ("auto", "incremental", "recursive", "first_order", "reevaluate")
_KNOWN = ("maintain", "refresh", "memory")


def maintain_of(options: Iterable[Option]) -> str:
    """Check all options, and give the one that the compiler needs."""
    maintain = "auto"
    seen: set[str] = set()
    for option in options:
        if option.name in seen:
            raise BindError(f"option {quoted(option.name)} is given twice", span=option.span)
        seen.add(option.name)
        match option.name:
            case "maintain":
                maintain = _maintain(option)
            case "refresh":
                _check_refresh(option)
            case "memory":
                raise UnsupportedError(
                    'option "memory" is not there yet', span=option.span, hint="leave it out; stores grow as needed"
                )
            case _:
                raise BindError(
                    f"unknown option {quoted(option.name)}",
                    span=option.span,
                    hint=nearest(option.name, _KNOWN, "the options are"),
                )
    return maintain


def _maintain(option: Option) -> str:
    value = str(option.value).lower()
    if value not in MAINTAIN:
        raise BindError(
            f"maintain = {option.value!r} is unknown", span=option.span, hint=nearest(value, MAINTAIN, "use one of")
        )
    return value


def _check_refresh(option: Option) -> None:
    value = " ".join(str(option.value).lower().split())
    if value == "on commit":
        return
    if value == "on read" or value.startswith("every "):
        raise UnsupportedError(
            f"refresh = {option.value!r} is not there yet", span=option.span, hint="use refresh = 'on commit'"
        )
    raise BindError(f"refresh = {option.value!r} is unknown", span=option.span, hint="use refresh = 'on commit'")
