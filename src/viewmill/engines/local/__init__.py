"""The engine in this process: record pools, and compiled triggers."""

from viewmill.engines.local.engine import LocalEngine

__all__ = ["LocalEngine"]
