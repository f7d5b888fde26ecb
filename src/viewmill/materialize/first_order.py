"""Keep the relations, and evaluate the delta over them: classical maintenance (Hot Dog section 2.1)."""

from __future__ import annotations

from viewmill.materialize.strategy import Change, Workshop, obstacle, over_base
from viewmill.program.nodes import Store


def first_order(shop: Workshop, store: Store, relation: str) -> Change:
    change = shop.delta(store, relation)
    blocked = obstacle(change, relation)
    if blocked:
        return Change(":=", over_base(shop, shop.definition(store)), "reevaluate", blocked)
    return Change("+=", over_base(shop, change), "first_order", "the delta joins the batch with stored relations")
