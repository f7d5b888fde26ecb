"""Short strings seen a moment ago: a column of any of them has the codes that its strings have one by one."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from viewmill.engines.local.dictionary import Dictionary
from viewmill.engines.local.recent import SHORT
from viewmill.engines.local.scalars import NULL

ROWS = 3000  # enough chunks for those that are looked up and those that are not

FEW = ["", "\0", "\0\0", "A", "N", "R", "AIR", "MAIL", "REG AIR", "x" * 8, "x" * 7, "NONE", "DELIVER IN PERSON"]
LENGTHS = ["y" * length for length in range(SHORT + 4)]
ENDS = [f"{'z' * length}{last}" for length in (0, 6, 7, 8, 15, 16, 22, 23, 24) for last in "ab"]


def one_by_one(values: list[str | bytes | None]) -> list[int]:
    known = Dictionary()
    return [NULL if value is None else known.code(value) for value in values]


@pytest.mark.parametrize("distinct", [FEW, LENGTHS, ENDS, [f"clerk {i}" for i in range(2000)]])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
@pytest.mark.parametrize("nulls", [0, 3])
def test_codes_are_those_of_the_strings_one_by_one(distinct: list[str], kind: pa.DataType, nulls: int) -> None:
    random = Random(7)
    values = random.choices([*distinct, *[None] * nulls], k=ROWS)
    array = pa.array(["in front", *values, "behind"], kind).slice(1, ROWS)
    assert Dictionary().codes(array).tolist() == one_by_one(values)


def test_a_column_ends_where_its_memory_ends() -> None:
    """The last strings are not read as if there were more bytes behind them."""
    values = [*["ab"] * (ROWS - 1), "a"]
    data = pa.py_buffer("".join(values).encode())
    offsets = pa.array([2 * i for i in range(ROWS)] + [2 * ROWS - 1], pa.int32()).buffers()[1]
    array = pa.Array.from_buffers(pa.string(), ROWS, [None, offsets, data])
    assert Dictionary().codes(array).tolist() == [*[0] * (ROWS - 1), 1]


def test_a_text_and_a_binary_of_the_same_bytes_are_two() -> None:
    known, values = Dictionary(), ["a", "bb"] * ROWS
    texts = known.codes(pa.array(values))
    binaries = known.codes(pa.array([value.encode() for value in values]))
    assert set(texts.tolist()) == {0, 1}
    assert set(binaries.tolist()) == {2, 3}


def test_many_new_strings_make_room_in_the_middle_of_a_column() -> None:
    values = [f"{i % 5}" if i % 2 else f"new {i}" for i in range(20_000)]
    assert Dictionary().codes(pa.array(values)).tolist() == one_by_one(values)
