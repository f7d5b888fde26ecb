"""Settings for every test."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Shared machines stall at random: a slow example says nothing about the code. Examples are the same in every run,
# so that a change is tested and not the dice. `make check` has fewer of them, and `--hypothesis-profile=explore` looks
# further than any run before.
calm = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("steady", max_examples=150, derandomize=True, **calm)
settings.register_profile("quick", max_examples=25, derandomize=True, **calm)
settings.register_profile("explore", max_examples=2000, **calm)
settings.load_profile("steady")
