"""Viewmill keeps SQL views fresh: it compiles a query into an incremental program whose cost follows the change."""

from importlib import import_module
from typing import TYPE_CHECKING

from viewmill.errors import (
    BindError,
    DataError,
    InternalError,
    ParseError,
    SinkError,
    UnsupportedError,
    ViewmillError,
)

if TYPE_CHECKING:
    from viewmill.result import Result
    from viewmill.session import Mill, connect
    from viewmill.sinks.reading import read_versioned
    from viewmill.subscriptions import Changes
    from viewmill.view import View

__version__ = "0.1.0"

__all__ = [
    "BindError",
    "Changes",
    "DataError",
    "InternalError",
    "Mill",
    "ParseError",
    "Result",
    "SinkError",
    "UnsupportedError",
    "View",
    "ViewmillError",
    "connect",
    "read_versioned",
]

_HOMES = {
    "Changes": "subscriptions",
    "Mill": "session",
    "Result": "result",
    "View": "view",
    "connect": "session",
    "read_versioned": "sinks.reading",
}
"""Modules of what is imported when somebody asks for it: processes that only compile, or run a program for Spark, start
in a third of the time without."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'viewmill' has no attribute {name!r}")
    found: object = getattr(import_module(f"viewmill.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
