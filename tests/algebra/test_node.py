"""Equal nodes are one node."""

from __future__ import annotations

import copy
import gc
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal

import pytest

from viewmill.algebra.build import product, relation
from viewmill.algebra.nodes import Exists, Product, Value
from viewmill.algebra.scalars import Call, Const, Var
from viewmill.algebra.text import parse


def test_equal_is_identical():
    assert parse("Sum[a](R(a, b) * {b > 3})") is parse("Sum[a](R(a, b) * {b > 3})")
    assert Call("+", (Var("a"), Const(1))) is Call(op="+", args=(Var(name="a"), Const(value=1)))


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, True), (1, 1.0), (1, Decimal(1)), (Decimal("1.0"), Decimal("1.00")), (0.0, -0.0), ("a", b"a")],
)
def test_constants_that_python_holds_equal_are_different(one, other):
    assert Const(one) != Const(other)
    assert Const(one) is Const(one)


def test_copies_are_the_same_node():
    node = parse("Exists(R(a) * S(a)) - 2.50 * (x := min b of T(b))")
    assert pickle.loads(pickle.dumps(node)) is node
    assert copy.copy(node) is node
    assert copy.deepcopy(node) is node
    assert replace(Exists(relation("R", "a")), body=relation("S", "a")) is Exists(relation("S", "a"))


def test_one_node_whichever_thread_makes_it():
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda i: parse(f"Sum[a](R(a, b) * {{b > {i % 5}}})"), range(200)))
    assert len({id(node) for node in made}) == 5


def test_nodes_nobody_holds_are_forgotten():
    parse("R(only_here)")
    gc.collect()
    assert parse("R(only_here)") == relation("R", "only_here")


def test_a_factor_can_stand_twice():
    a = Value(Var("a"))
    assert product(a, a) == Product((a, a))
