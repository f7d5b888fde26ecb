"""The interpreter: `Interpreter` runs any program, one dictionary look-up at a time."""

from viewmill.engines.interpreter.engine import Interpreter

__all__ = ["Interpreter"]
