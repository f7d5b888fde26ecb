"""The README's examples run and print what it says."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)


def test_readme(capsys):
    first, second = blocks("python")
    (expected,) = blocks("text")
    scope = {}
    exec(first, scope)
    assert capsys.readouterr().out == expected
    exec(second, scope)
    assert capsys.readouterr().out.endswith("['customers', 'orders']\n")
