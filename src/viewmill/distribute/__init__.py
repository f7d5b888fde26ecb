"""WHERE: a program and the places of its stores become programs for the driver and for buckets (Hot Dog, section 4)."""

from viewmill.distribute.compile import distribute
from viewmill.distribute.passes import ALL_PASSES
from viewmill.distribute.plan import plan

__all__ = ["ALL_PASSES", "distribute", "plan"]
