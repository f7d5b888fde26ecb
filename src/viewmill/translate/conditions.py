"""Conditions in is-true form.

    WHERE NOT (a < b OR c IS NULL) AND EXISTS (Q)
    =>  {a >= b} * {c is not null} * (count := Sum[](Q)) * {count > 0}

A condition selects a row if it is true; false and NULL are alike. That is why it may be taken apart, although logic
has three values: `and` is true if both sides are, and false if one side is. `not` asks the same
question of the other truth value, so it travels to the leaves, where `not (a < b)` is true exactly when `a >= b` is.
Each conjunct becomes a factor of its own, in the order written, those with subqueries last.
"""

from __future__ import annotations

from viewmill.algebra import scalars
from viewmill.algebra.build import test
from viewmill.algebra.nodes import Expr
from viewmill.algebra.scalars import FALSE, Const, Scalar
from viewmill.sql.bound import BoundExpr, Call, ExistsQuery, InQuery, Literal
from viewmill.translate.context import Context
from viewmill.translate.formulas import conjunction, conjuncts, disjunction, is_positive, is_zero, negation
from viewmill.translate.scalars import membership, value
from viewmill.translate.subqueries import count_rows

OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def condition(context: Context, expr: BoundExpr | None) -> tuple[Expr, ...]:
    """Factors whose product weighs 1 where `expr` is true and 0 elsewhere. No condition is always true."""
    if expr is None:
        return ()
    plain: list[Expr] = []
    with_subqueries: list[Expr] = []
    for part, wanted in _parts(expr, wanted=True):
        needs: list[Expr] = []
        tests = [test(conjunct) for conjunct in conjuncts(_truth(context, part, wanted, needs))]
        if needs:
            with_subqueries += [*needs, *tests]
        else:
            plain += tests
    return (*plain, *with_subqueries)


def _parts(expr: BoundExpr, *, wanted: bool) -> list[tuple[BoundExpr, bool]]:
    """`expr` has the truth value `wanted` exactly when each part has the one beside it."""
    match expr:
        case Call("not", (arg,)):
            return _parts(arg, wanted=not wanted)
        case Call("and", args) if wanted:
            return [part for arg in args for part in _parts(arg, wanted=True)]
        case Call("or", args) if not wanted:
            return [part for arg in args for part in _parts(arg, wanted=False)]
        case _:
            return [(expr, wanted)]


def _truth(context: Context, expr: BoundExpr, wanted: bool, needs: list[Expr]) -> Scalar:
    """A scalar that is true exactly when `expr` has the truth value `wanted`; otherwise it is false or NULL."""
    match expr:
        case Literal(constant):
            return FALSE if constant is None else Const(constant is wanted)
        case Call("not", (arg,)):
            return _truth(context, arg, not wanted, needs)
        case Call("and" | "or" as op, args):
            parts = [_truth(context, arg, wanted, needs) for arg in args]
            return conjunction(parts) if (op == "and") == wanted else disjunction(parts)
        case Call(op, (left, right)) if not wanted and op in OPPOSITE:
            return scalars.Call(OPPOSITE[op], (value(context, left, needs), value(context, right, needs)))
        case ExistsQuery(query):
            count = count_rows(context, query, needs)
            return is_positive(count) if wanted else is_zero(count)
        case InQuery():
            within = membership(context, expr, needs)
            return within.is_true() if wanted else within.is_false()
        case _:
            found = value(context, expr, needs)
            return found if wanted else negation(found)
