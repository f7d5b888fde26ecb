"""The is-true form says of every row what three-valued logic says of the condition as written."""

from __future__ import annotations

from itertools import product as every

import hypothesis.strategies as st
import pytest
from hypothesis import given

from viewmill.algebra import nodes
from viewmill.algebra.evaluate import evaluate
from viewmill.algebra.functions import evaluate_scalar
from viewmill.algebra.scalars import FALSE, NULL, TRUE, Call, Scalar, Var
from viewmill.algebra.schema import Names
from viewmill.algebra.text import parse_scalar, show_scalar
from viewmill.sql import bound
from viewmill.sql.bound import BoundExpr, Column, Literal
from viewmill.translate.conditions import condition
from viewmill.translate.context import Context
from viewmill.translate.formulas import conjunction, disjunction
from viewmill.translate.queries import rows
from viewmill.translate.scalars import value
from viewmill.types import BOOLEAN, INT

COLUMNS = st.sampled_from([Column(name, INT, True) for name in "abc"])
NUMBERS = st.sampled_from([Literal(number, INT) for number in (None, 0, 1)])
OPERANDS = COLUMNS | NUMBERS


def call(op: str, *args: BoundExpr) -> BoundExpr:
    return bound.Call(op, args, BOOLEAN, True)


def comparisons() -> st.SearchStrategy[BoundExpr]:
    return st.one_of(
        st.builds(call, st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"]), OPERANDS, OPERANDS),
        st.builds(lambda x: call("is_null", x), OPERANDS),
        st.builds(lambda x, y, z: call("in", x, y, z), OPERANDS, OPERANDS, OPERANDS),
        st.sampled_from([Literal(truth, BOOLEAN) for truth in (True, False, None)]),
    )


def conditions() -> st.SearchStrategy[BoundExpr]:
    def larger(inner: st.SearchStrategy[BoundExpr]) -> st.SearchStrategy[BoundExpr]:
        several = st.lists(inner, min_size=2, max_size=3)
        return st.one_of(
            st.builds(lambda op, args: call(op, *args), st.sampled_from(["and", "or"]), several),
            st.builds(lambda arg: call("not", arg), inner),
            st.builds(lambda *args: call("case", *args), inner, inner, inner),
        )

    return st.recursive(comparisons(), larger, max_leaves=8)


@given(expr=conditions(), row=st.fixed_dictionaries(dict.fromkeys("abc", st.sampled_from([None, 0, 1]))))
def test_a_row_passes_exactly_when_the_condition_is_true(expr: BoundExpr, row: dict[str, object]) -> None:
    context = Context(Names(frozenset("abc")), rows)
    as_written = evaluate_scalar(value(context, expr, []), row)
    factors = condition(context, expr)
    assert all(isinstance(factor, nodes.Test) for factor in factors)
    assert all(evaluate(factor, {}, env=row) for factor in factors) is (as_written is True)


@given(data=st.data())
def test_disjunction_is_true_exactly_when_or_is(data: st.DataObject) -> None:
    atoms = st.sampled_from([Var("p"), Var("q"), Var("r"), TRUE, FALSE, NULL])
    branch = st.lists(atoms, min_size=1, max_size=3).map(conjunction)
    branches: list[Scalar] = data.draw(st.lists(branch, min_size=2, max_size=3))
    plain, factored = Call("or", tuple(branches)), disjunction(branches)
    for truths in every([True, False, None], repeat=3):
        row = dict(zip("pqr", truths, strict=True))
        assert (evaluate_scalar(factored, row) is True) is (evaluate_scalar(plain, row) is True)


@pytest.mark.parametrize(
    ("branches", "expected"),
    [
        pytest.param(["a and b", "c and a"], "a and (b or c)", id="what is shared comes out"),
        pytest.param(["a and b and c", "c and a and d"], "a and c and (b or d)", id="all of it, in order"),
        pytest.param(["a", "a and b"], "a", id="a branch that is shared entirely absorbs the others"),
        pytest.param(
            ["a and b", "b and c", "c and a"], "a and b or b and c or c and a", id="shared by all, or it stays"
        ),
        pytest.param(["a or b", "c"], "a or b or c", id="or in or is one or"),
    ],
)
def test_disjunction(branches: list[str], expected: str) -> None:
    assert show_scalar(disjunction(map(parse_scalar, branches))) == expected
