"""The 22 TPC-H queries become sound expressions (`translate` checks its result), and Q19 shows its join."""

from __future__ import annotations

from pathlib import Path

import pytest
from tpch_schema import tpch_catalog
from translate.spark_sql import bound

from viewmill.algebra import nodes
from viewmill.algebra.scalars import Call, Var
from viewmill.algebra.schema import schema, walk
from viewmill.translate import translate

QUERIES = Path(__file__).parents[1] / "fixtures" / "tpch"
CATALOG = tpch_catalog()


@pytest.mark.parametrize("file", sorted(QUERIES.glob("q*.sql")), ids=lambda file: file.stem)
def test_every_query_translates(file: Path) -> None:
    view = bound(file.read_text(), CATALOG)
    translated = translate(view)
    assert schema(translated.expr) == translated.columns == tuple(column.var for column in view.query.columns)


def test_the_join_condition_of_q19_comes_out_of_its_disjunction() -> None:
    expr = translate(bound((QUERIES / "q19.sql").read_text(), CATALOG)).expr
    conditions = [node.scalar for node in walk(expr) if isinstance(node, nodes.Test)]
    assert any(isinstance(c, Call) and c.op == "=" and {type(arg) for arg in c.args} == {Var} for c in conditions)
