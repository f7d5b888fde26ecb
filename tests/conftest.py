"""Settings for every test, and the two executors that run programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from object_store import object_store

from viewmill.engines.local import engine

# Shared machines stall at random: a slow example says nothing about the code. Examples are the same in every run,
# so that a change is tested and not the dice. `make check` has fewer of them, and `--hypothesis-profile=explore` looks
# further than any run before.
calm = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("steady", max_examples=150, derandomize=True, **calm)
settings.register_profile("quick", max_examples=25, derandomize=True, **calm)
settings.register_profile("explore", max_examples=2000, **calm)
settings.load_profile("steady")

# How many rows a mill interprets before it compiles. Midway, stores move into pools with rows in them.
EXECUTORS = {"interpreted": sys.maxsize, "compiled": -1, "midway": 60}

SPARK_TESTS = Path(__file__).parent / "spark"


@pytest.hookimpl(tryfirst=True)  # before groups are looked at
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever starts Spark, by a fixture or by itself, runs in one worker: one test with a Spark at a time."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if item.path.is_relative_to(SPARK_TESTS) and {"spark", "session", "anchor"} & fixtures:
            item.add_marker("spark")
        if item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(autouse=True, scope="session")
def machine_code(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Compiled code is made anew in every run, once for all workers."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if base.name.startswith("popen-") else base) / "machine-code"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VIEWMILL_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="module", params=["interpreted", "compiled"])
def executor(request: pytest.FixtureRequest) -> Iterator[str]:
    """What runs the programs of every mill: tests that ask for it are run on both."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "COMPILE_AFTER", EXECUTORS[request.param])
        yield request.param


@pytest.fixture(scope="session")
def object_place() -> Iterator[Callable[[], str]]:
    """Gives an empty place in an object store, another one each time."""
    with object_store() as place:
        yield place
