"""Rows of one key that come one after the other are emitted as one: that must not be seen."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

import viewmill
from viewmill.engines.local import engine
from viewmill.errors import DataError


@pytest.fixture
def mill(monkeypatch: pytest.MonkeyPatch) -> viewmill.Mill:
    monkeypatch.setattr(engine, "COMPILE_AFTER", -1)
    mill = viewmill.connect()
    mill.sql("CREATE TABLE t (k BIGINT, a BIGINT NOT NULL)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n, sum(a) AS total FROM t GROUP BY k")
    return mill


def test_runs_add_up_as_rows_do(mill: viewmill.Mill) -> None:
    random = Random(5)
    rows = [(key, random.randrange(-3, 4)) for key in (None, 0, 1, 1, 2, 0) for _ in range(random.randrange(1, 9))]
    mill.insert("t", rows)
    gone = rows[::3]
    mill.delete("t", gone)
    left = list((Counter(rows) - Counter(gone)).elements())
    expected = {
        key: (sum(k == key for k, _ in left), sum(a for k, a in left if k == key)) for key in {k for k, _ in left}
    }
    assert {key: (n, total) for key, n, total in mill.read("v")} == expected
    assert mill._engine.is_compiled
    assert "peek(at2, -3) == v_k" in mill._engine._fast.code("t").functions[0].source


def test_a_run_that_does_not_fit_is_refused_whole(mill: viewmill.Mill) -> None:
    mill.insert("t", [(1, 5)])
    with pytest.raises(DataError):
        mill.insert("t", [(1, 2**62), (1, 2**62), (1, 2**62)])
    assert list(mill.read("v")) == [(1, 1, 5)]
