"""Settings for every test."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Shared machines stall at random: a slow example says nothing about the code. Examples are the same in every run,
# so that a change is tested and not the dice; `--hypothesis-profile=explore` looks further.
settings.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", deadline=None, max_examples=2000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")
