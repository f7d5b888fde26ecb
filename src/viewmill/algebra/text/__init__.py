"""The text form of the algebra: what `explain` shows and fixtures hold.

    show(expr) == "Sum[b](R(a, b) * {a < 5})"        parse(show(expr)) == expr

The law holds for every expression in normal form (see `build.py`); what is not, such as `1 * R(a)` or `R(a) + 0`, is
brought there by parsing. `nodes.py` gives the form of each node and `scalars.py` that of constants. The rest:

    `order id`        a name that is no plain identifier, or a reserved word, stands in backquotes, a backquote doubled
    R(a, c: x)        field c as variable x
    d_`d_R`(a)        a relation whose own name starts with d_ is quoted too, so that an open d_ always means the batch
    E - F             E + -1 * F
"""

from __future__ import annotations

from viewmill.algebra.text.parse import parse, parse_scalar
from viewmill.algebra.text.show import show, show_scalar
from viewmill.algebra.text.words import show_name

__all__ = ["parse", "parse_scalar", "show", "show_name", "show_scalar"]
