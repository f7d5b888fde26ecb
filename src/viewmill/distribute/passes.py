"""The optimisations, by name: each can be left out, to see what it is worth (Hot Dog, section 4.3 and figure 13).

push_down            `routes.py`      each term takes the cheapest way; else from store to store, as it is written
single_transformer   `units.py`       what came in goes to a place once, for all statements there; else for each anew
share                `routes.py`      what is equal and computed in one place is computed and sent once
                     `copies.py`      and kept once
dead_code            `dead_code.py`   columns and rows that nobody reads do not travel
fuse                 `fuse.py`        what can run at one time does so in one block
"""

from __future__ import annotations

ALL_PASSES: tuple[str, ...] = ("push_down", "single_transformer", "share", "dead_code", "fuse")
