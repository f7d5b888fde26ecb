"""The loader of fixture files.

A file holds blocks, apart by an empty line: `# title`, what is given, `----`, what is expected. The rule is explicit,
so that a slip is an error and not a shifted pair.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

FIXTURES = Path(__file__).parent / "fixtures"


def cases(path: str) -> list[Any]:
    """Every (given, expected) of the file, named by its title."""
    found = []
    for block in (FIXTURES / path).read_text().strip().split("\n\n"):
        title, _, body = block.partition("\n")
        given, rule, expected = body.partition("\n----\n")
        assert title.startswith("# ") and rule, f"{path}: malformed case {title!r}"
        found.append(pytest.param(given, expected.strip("\n"), id=title[2:]))
    return found
