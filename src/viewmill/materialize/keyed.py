"""Higher-order maintenance that keeps only joins of bounded size.

    d_lineitem(ok, sk, p) * M_orders_customer(ok, nk) * M_supplier(sk, nk)

`recursive` would keep orders, customer and supplier as one store, keyed by order and supplier: every order with every
supplier of the customer's nation. Here a part of the delta is kept whole only if a primary key bounds it (see
`keys.py`), and is cut into bounded parts otherwise, which are joined on the spot by their keys. Every store is as small
as some relation, and every look-up through a foreign key still finds one record.
"""

from __future__ import annotations

from viewmill.materialize.cut import cut
from viewmill.materialize.strategy import Change, Workshop, obstacle
from viewmill.program.nodes import Store


def keyed(shop: Workshop, store: Store, relation: str) -> Change:
    change = shop.delta(store, relation)
    blocked = obstacle(change, relation)
    if blocked:
        return Change(":=", cut(shop.definition(store), shop.reader, shop.apart), "reevaluate", blocked)
    kept = cut(change, shop.reader, shop.apart)
    return Change("+=", kept, "recursive", "each part of the delta that a key bounds is kept")
