"""UNION, INTERSECT and EXCEPT, with and without ALL.

With A and B the sides over the same columns c, and n, m the number of times a row c occurs in A and in B:

    UNION ALL       A + B                            UNION       Exists(A + B)
    INTERSECT ALL   Exists(A) * n * m * least(n, m)  INTERSECT   Exists(A) * Exists(B)
    EXCEPT ALL      Exists(A) * n * m * {n > m} * [n - m]        EXCEPT      Exists(A) * m * {m = 0}

where n and m stand for the factors that define them, `(m := Sum[](B' * (c' := c)))`. Rows are the same if their
columns are identical, and NULL is identical to NULL.
"""

from __future__ import annotations

from typing import assert_never

from viewmill.algebra.build import exists, product, sum_, test
from viewmill.algebra.nodes import Expr, Value
from viewmill.algebra.scalars import Call, Var
from viewmill.sql.bound import SetOperation
from viewmill.translate.context import Context
from viewmill.translate.formulas import is_zero
from viewmill.translate.rows import Rows, copy, count_matching, named


def set_operation(context: Context, operation: SetOperation) -> Rows:
    left, right = context.rows(operation.left), context.rows(operation.right)
    columns = tuple(column.var for column in operation.columns)
    return Rows(_combine(context, operation, left, right, columns), tuple(map(Var, columns)))


def _combine(context: Context, operation: SetOperation, left: Rows, right: Rows, columns: tuple[str, ...]) -> Expr:
    match operation.kind:
        case "union":
            both = sum_((named(left, columns), named(right, columns)))
            return both if operation.all else exists(both)
        case "intersect" if not operation.all:
            return product(exists(named(left, columns)), exists(named(right, columns)))
        case "except" if not operation.all:
            in_right = count_matching(context.names, right, columns)
            return product(exists(named(left, columns)), in_right, test(is_zero(in_right.var)))
        case "intersect" | "except":
            return _by_count(context, operation, left, right, columns)
        case _:
            assert_never(operation.kind)


def _by_count(context: Context, operation: SetOperation, left: Rows, right: Rows, columns: tuple[str, ...]) -> Expr:
    in_left = count_matching(context.names, copy(context.names, left), columns)
    in_right = count_matching(context.names, right, columns)
    n, m = Var(in_left.var), Var(in_right.var)
    found = product(exists(named(left, columns)), in_left, in_right)
    if operation.kind == "intersect":
        return product(found, Value(Call("least", (n, m))))
    return product(found, test(Call(">", (n, m))), Value(Call("-", (n, m))))
