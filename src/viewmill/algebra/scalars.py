"""Scalar expressions: functions of variables to one value, NULL included.

They are leaves of the algebra: `Value` uses one as a weight, `Test` as a condition, and
`Lift` gives one a name. They follow SQL's three-valued logic. Types are not written down:
whoever builds a scalar has already put a `Cast` where SQL would convert (and where Spark
would round), so that each operation means the same for every reader.

    a + 1      a * (1 - b)      cast(a / b as decimal(38,6))      a like 'x%' and b is null
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import TypeAlias

from viewmill.algebra.node import Node, node
from viewmill.types import Type


@node
class Var(Node):
    """`x`: the value of a variable."""

    name: str


@node
class Const(Node):
    """`1`, `0.05`, `1e0`, `'text'`, `date '1995-01-01'`, `true`, `null`.

    Python holds 1 == 1.0 == True; as constants they are three, and 1.0 is not 1.00.
    """

    value: object

    @staticmethod
    def _identity(*fields: object) -> Hashable:
        return tuple((type(value), repr(value)) for value in fields)


@node
class Call(Node):
    """`op(args)`: an operator or function of `functions.FUNCTIONS`."""

    op: str
    args: tuple[Scalar, ...]


@node
class Cast(Node):
    """`cast(x as type)`, with Spark's ANSI meaning: a value that does not fit is an error."""

    arg: Scalar
    type: Type


Scalar: TypeAlias = Var | Const | Call | Cast

NULL = Const(None)
TRUE = Const(True)
FALSE = Const(False)


def children(scalar: Scalar) -> tuple[Scalar, ...]:
    match scalar:
        case Call(_, args):
            return args
        case Cast(arg, _):
            return (arg,)
        case Var() | Const():
            return ()


def with_children(scalar: Scalar, args: tuple[Scalar, ...]) -> Scalar:
    match scalar:
        case Call(op, _):
            return Call(op, args)
        case Cast(_, type_):
            return Cast(args[0], type_)
        case Var() | Const():
            return scalar


@lru_cache(maxsize=20_000)
def variables(scalar: Scalar) -> frozenset[str]:
    if isinstance(scalar, Var):
        return frozenset((scalar.name,))
    return frozenset().union(*(variables(arg) for arg in children(scalar)))


# Left out of the operations that give a value whenever their arguments have one; see `functions.TOTAL`.
_CAN_FAIL = frozenset(
    "/ mean % div pmod assert_single to_date split_part rlike repeat lpad rpad date_add add_months".split()
)
_CAN_FAIL |= frozenset("timestamp_add trunc date_trunc ceil floor".split())


def can_fail(scalar: Scalar) -> bool:
    """Whether computing it for a row that SQL would not have looked at could be an error."""
    match scalar:
        case Call(op, args):
            return op in _CAN_FAIL or any(map(can_fail, args))
        case Cast(Call("+" | "-" | "*" | "neg", args), type_) if type_.is_integer:
            return any(map(can_fail, args))  # a check for overflow: what it stops is no reason to join late
        case Cast(arg, type_):
            # To a decimal or a double we convert all the time, from numbers, and it is the other types that are parsed.
            return not (type_.is_decimal or type_.is_floating or type_.name == "string") or can_fail(arg)
        case Var() | Const():
            return False


def substitute(scalar: Scalar, values: Mapping[str, Scalar]) -> Scalar:
    """Replace variables by scalars."""
    if isinstance(scalar, Var):
        return values.get(scalar.name, scalar)
    args = children(scalar)
    changed = tuple(substitute(arg, values) for arg in args)
    return scalar if changed == args else with_children(scalar, changed)
