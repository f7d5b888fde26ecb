"""The calculus, on one page (Hot Dog section 3.1 and appendix A, extended with NULL, MIN/MAX and LIMIT).

An expression denotes, for each binding of its *inputs*, a finite map from rows to weights. A row
gives a value to every variable of the *schema*; what is not in the map has weight 0.

| node          | text                 | schema            | weight of a row                                   |
| ------------- | -------------------- | ----------------- | ------------------------------------------------- |
| Relation      | `R(a, b)`            | its variables     | how often the row occurs                          |
| DeltaRelation | `d_R(a, b)`          | its variables     | how often the batch adds it (negative: removes)   |
| Value         | `a`, `5`, `[1 - a]`  | none              | the value; a NULL weighs 0                        |
| Test          | `{a < b}`            | none              | 1 if true, 0 if false or NULL                     |
| Lift          | `(x := E)`           | x                 | 1 for x = the value of E, E having no schema      |
| Extreme       | `(x := min y of E)`  | x                 | 1 for x = the least y in E, NULL if there is none |
| Exists        | `Exists(E)`          | that of E         | 1 where E is not 0                                |
| TopK          | `TopK[a desc; 3](E)` | that of E         | how many of its copies are among the first 3      |
| Product       | `E * F`              | union             | product (natural join)                            |
| Sum           | `E + F`              | what all produce  | sum (bag union)                                   |
| AggSum        | `Sum[a, b](E)`       | a, b              | sum over all else (group by)                      |
| After         | `After(E)`           | that of E         | what E weighs once the pending batch is applied   |

Rules that hold everywhere:

- Variables join by identity, under which NULL is NULL. SQL's `a = b` is the test `{a = b}`, which no NULL passes.
- A relation is read by field: `R(a: x, c)` gives field `a` the name `x`, and adds away the fields not named.
- Inputs are the variables an expression needs and does not produce: those of values and tests, and,
  for correlated `E`, those of `Lift`, `Extreme` and `AggSum`. A product hands variables from factor to factor.
- What `AggSum`, `Lift` and `Extreme` do not return is local to them. The same name outside is another variable;
  builders keep names apart, so that this never matters to a reader.
- What only some terms of a sum produce, the others would leave open: it is an input of the sum, given from outside.
  Deltas have such sums, where one term knows the affected keys of a correlated query and another does not.
- `Lift` and `Extreme` are total: exactly one x for every binding of the inputs. A grouped aggregate is
  `Exists(Sum[g](E)) * (x := Sum[](E' * (g' := g)))`: which groups exist is decided by their count, never by their sum.
- `TopK` picks from all rows that E has for one binding of the inputs: these are the partition key, so a correlated
  query has one top-k for each outer row. What joins with its schema is asked afterwards, and must not reach inside.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from viewmill.algebra.node import Node, node
from viewmill.algebra.scalars import Const, Scalar


@node
class Relation(Node):
    """`R(a, c: x)`: rows of a base relation, or of a store once the program is compiled."""

    name: str
    fields: tuple[str, ...]
    vars: tuple[str, ...]


@node
class DeltaRelation(Node):
    """`d_R(a, c: x)`: the pending batch of a relation."""

    name: str
    fields: tuple[str, ...]
    vars: tuple[str, ...]


@node
class Value(Node):
    """`[a - b]`, `a`, `5`: a value as a weight. NULL weighs nothing, as in SQL's SUM."""

    scalar: Scalar


@node
class Test(Node):
    """`{a < b}`: 1 where the condition is true, 0 where it is false or NULL."""

    scalar: Scalar


@node
class Lift(Node):
    """`(x := E)`: the weight of E, which has no schema, becomes the value of x.

    For `Value` bodies this is plain assignment, so that x may be NULL or a string.
    """

    var: str
    body: Expr


@node
class Extreme(Node):
    """`(x := min y of E)`: x is the least (greatest) y that is not NULL among the rows of E; NULL if there is none."""

    var: str
    kind: Literal["min", "max"]
    of: str
    body: Expr


@node
class Exists(Node):
    """`Exists(E)`: every weight that is not 0 becomes 1."""

    body: Expr


class SortBy(NamedTuple):
    """`a desc nulls first`: one key of an order. NULLs come first if ascending and last if descending, or as said."""

    var: str
    descending: bool = False
    nulls_first: bool = True


@node
class TopK(Node):
    """`TopK[a desc, b; 3, 1](E)`: of the rows of E in order, each as often as it weighs, 3 after the first 1.

    A row weighs as much as it has copies at places p with offset < p <= offset + limit. `all` is no limit. A row of
    negative weight is not there. NaN is greater than every other number. `order` names every variable of the schema
    once, so that no two rows tie and no name that a rewrite gives can decide between them.
    """

    order: tuple[SortBy, ...]
    limit: int | None
    offset: int
    body: Expr


@node
class Product(Node):
    """`E * F`: natural join. Weights multiply."""

    factors: tuple[Expr, ...]


@node
class Sum(Node):
    """`E + F`: bag union. Weights add. `E - F` is `E + -1 * F`."""

    terms: tuple[Expr, ...]


@node
class AggSum(Node):
    """`Sum[x, y](E)`: keep the `group` variables of `body`, adding the rest away."""

    group: tuple[str, ...]
    body: Expr


@node
class After(Node):
    """`After(E)`: E over `R + d_R` in place of every R. Only in deltas; E itself holds no deltas."""

    body: Expr


Expr: TypeAlias = (
    Relation | DeltaRelation | Value | Test | Lift | Extreme | Exists | TopK | Product | Sum | AggSum | After
)

ZERO = Value(Const(0))
ONE = Value(Const(1))
