"""Rich renderings as plain text that fits the terminal."""

from __future__ import annotations

from io import StringIO

from rich.console import Console, RenderableType


def as_text(renderable: RenderableType) -> str:
    """What a terminal of this width would show, without colours."""
    console = Console(file=StringIO(), width=Console().width, color_system=None)
    with console.capture() as capture:
        console.print(renderable)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())
