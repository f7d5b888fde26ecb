"""Where the arrays of a pool live: anonymous memory, or files mapped into memory.

Arrays start as zeros. Growing is asking for a larger array, copying, and releasing the old one, so a pool is the same
code over both kinds.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray


class Memory(Protocol):
    def array(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Zeros, row by row."""

    def release(self, array: NDArray[Any]) -> None:
        """An array of this memory is not needed any more. Views that readers still hold stay readable."""


class Anonymous:
    """Memory of this process. The system hands out pages when they are first written."""

    def array(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        return np.zeros(shape, dtype)

    def release(self, array: NDArray[Any]) -> None:
        pass


class Mapped:
    """One file per array in `directory`, named by the order in which they were asked for.

    The system writes pages back when it likes, so the files are a consistent state only after a flush at rest.
    """

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self._files: dict[int, Path] = {}
        self._made = 0

    def array(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        if math.prod(shape) == 0:  # the system maps no empty files
            return np.zeros(shape, dtype)
        file = self.directory / f"{self._made:06d}.array"
        self._made += 1
        # A plain view: compiled code knows arrays, not their subclasses.
        array = np.memmap(file, dtype, "w+", shape=shape).view(np.ndarray)
        self._files[id(array)] = file
        return array

    def release(self, array: NDArray[Any]) -> None:
        file = self._files.pop(id(array), None)
        if file is not None:
            file.unlink()
