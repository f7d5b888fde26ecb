"""Keep every part of the delta that does not depend on the batch, and those of its delta in turn: higher-order
maintenance (DBToaster section 3.1, Hot Dog section 2.2).

Where the delta would run over whole stores, the definition is evaluated anew, but from parts that are kept
(Hot Dog example 3.3).
"""

from __future__ import annotations

from viewmill.materialize.cut import cut
from viewmill.materialize.strategy import Change, Workshop, obstacle
from viewmill.program.nodes import Store


def recursive(shop: Workshop, store: Store, relation: str) -> Change:
    change = shop.delta(store, relation)
    blocked = obstacle(change, relation)
    if blocked:
        return Change(":=", cut(shop.definition(store), shop.reader), "reevaluate", blocked)
    return Change(
        "+=", cut(change, shop.reader), "recursive", "each part of the delta that the batch does not touch is kept"
    )
