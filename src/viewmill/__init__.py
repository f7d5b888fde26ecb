"""Viewmill keeps SQL views fresh: it compiles a query into an incremental program whose cost follows the change."""

from viewmill.errors import (
    BindError,
    DataError,
    InternalError,
    ParseError,
    SinkError,
    UnsupportedError,
    ViewmillError,
)
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
