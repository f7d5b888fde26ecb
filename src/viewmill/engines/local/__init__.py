"""The engine in this process: record pools, and triggers compiled with Numba."""

from viewmill.engines.local.engine import LocalEngine

__all__ = ["LocalEngine"]
