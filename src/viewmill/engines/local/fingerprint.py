"""What machine code is named by: a change of any source here makes another name."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path


@cache
def fingerprint() -> str:
    """Of every source that C functions may be made from."""
    digest = hashlib.blake2b(digest_size=8)
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()
