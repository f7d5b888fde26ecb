"""The import graph keeps the layers apart (see docs/architecture.md)."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import viewmill

PACKAGE = Path(__file__).parent.parent / "src" / "viewmill"
FILES = sorted(PACKAGE.rglob("*.py"))

# A third-party engine is imported in one folder only.
HOMES = {
    "sqlglot": ("sql",),
    "llvmlite": ("engines/local",),
    "pyspark": ("engines/spark", "sources", "sinks", "bench/spark_"),
}

# What a folder may import of ours, besides itself.
ALLOWED = {
    "algebra": {"errors", "types", "catalog"},
    "program": {"errors", "types", "catalog", "algebra"},
}

# What a folder must not import.
FORBIDDEN = {
    "engines": {"rewrite", "sql", "translate", "delta", "materialize", "session"},
    "sql": {"translate", "delta", "rewrite", "materialize", "program", "engines", "session"},
    "delta": {"sql", "materialize", "engines", "session"},
    "rewrite": {"sql", "materialize", "engines", "session"},
    "translate": {"materialize", "engines", "session"},
    "materialize": {"sql", "engines", "session"},
}


class _AtRunTime(ast.NodeTransformer):
    """Without what only type checkers read."""

    def visit_If(self, node: ast.If) -> ast.AST | None:
        is_typing = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        return None if is_typing else self.generic_visit(node)


def imports(file: Path) -> Iterator[str]:
    for node in ast.walk(_AtRunTime().visit(ast.parse(file.read_text()))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file.name}: imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def ours(file: Path) -> set[str]:
    """The folders and top-level modules of ours that a file imports."""
    return {name.split(".")[1] for name in imports(file) if name.startswith("viewmill.")}


def folder(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_layers(file):
    for package, homes in HOMES.items():
        if any(name.split(".")[0] == package for name in imports(file)):
            assert str(file.relative_to(PACKAGE)).startswith(homes), f"only {homes} may import {package}"
    allowed = ALLOWED.get(folder(file))
    if allowed is not None:
        assert ours(file) <= allowed | {folder(file)}
    assert not ours(file) & FORBIDDEN.get(folder(file), set())


def test_reference_evaluator_stands_alone():
    """It checks everything else, so it may share only the nodes with what it checks."""
    shared = {
        name for name in imports(PACKAGE / "algebra" / "evaluate.py") if name.startswith(("viewmill.", "sqlglot"))
    }
    assert all(name.startswith(("viewmill.algebra.", "viewmill.errors", "viewmill.types")) for name in shared)


def test_what_the_package_offers_is_there():
    assert set(viewmill.__all__) <= set(dir(viewmill))
    assert all(getattr(viewmill, name).__name__ == name for name in viewmill.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'conect'"):
        getattr(viewmill, "conect")  # noqa: B009


def test_who_only_compiles_does_not_wait_for_the_rest():
    """A process that helps to compile, while somebody waits for it."""
    code = "import viewmill.engines.local.compilers, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"sqlglot", "duckdb", "pandas", "pyspark", "viewmill.session"} & set(loaded)
