"""What a session promises, it keeps on both executors."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="module")
def on_both(executor: str) -> None:
    pass
