"""What primary keys say about joins: which variables follow from others, and which joins stay small.

    orders(ok, ck, d) * customer(ck, nk) * nation(nk, name)      ok determines everything: as many rows as orders
    orders(ok, ck) * customer(ck, nk) * supplier(sk, nk)         nothing determines both ok and sk: many to many

A join is *bounded* if one of its relations determines all the others: each of its rows then has at most one partner in
every other relation, and the join has at most as many rows as that relation. These are the joins of facts with their
dimensions, of any depth. Others can be as large as a product.
"""

from __future__ import annotations

from collections.abc import Sequence

from viewmill.algebra.build import factors
from viewmill.algebra.nodes import AggSum, Expr, Lift, Relation, Value
from viewmill.catalog import Catalog


def atoms_of(definition: Expr) -> list[Relation]:
    """The relations that a definition joins, not those inside nested queries."""
    body = definition.body if isinstance(definition, AggSum) else definition
    return [factor for factor in factors(body) if isinstance(factor, Relation)]


def key_vars(atom: Relation, catalog: Catalog) -> frozenset[str] | None:
    """The variables of an atom's primary key, if it has one and reads all of it."""
    info = catalog.relations.get(atom.name)
    if info is None or not info.primary_key:
        return None
    var_of = dict(zip(atom.fields, atom.vars, strict=True))
    if not set(info.primary_key) <= set(var_of):
        return None
    return frozenset(var_of[name] for name in info.primary_key)


def determined(atoms: Sequence[Relation], known: frozenset[str], catalog: Catalog) -> frozenset[str]:
    """The variables that follow from the known ones."""
    found = set(known)
    left = list(atoms)
    while True:
        sure = [atom for atom in left if (key := key_vars(atom, catalog)) is not None and key <= found]
        if not sure:
            return frozenset(found)
        found.update(*(atom.vars for atom in sure))
        left = [atom for atom in left if atom not in sure]


def candidate_keys(definition: Expr, keys: tuple[str, ...], catalog: Catalog) -> tuple[frozenset[str], ...]:
    """Sets of a store's keys of which each determines all others."""
    atoms, wanted = atoms_of(definition), frozenset(keys)
    body = definition.body if isinstance(definition, AggSum) else definition
    same = {
        f.var for f in factors(body) if isinstance(f, Lift) and isinstance(f.body, Value) and f.var in wanted
    }  # computed from the others
    found = []
    for atom in atoms:
        key = key_vars(atom, catalog)
        if key is not None and key <= wanted and wanted - same <= determined(atoms, key, catalog):
            found.append(key)
    return tuple(dict.fromkeys(found))


def bounded_parts(atoms: Sequence[Relation], catalog: Catalog) -> list[list[Relation]]:
    """The atoms in groups of which each is bounded: a relation, and what it determines.

    Relations that no other determines are the roots. What several roots determine goes with the first.
    """
    reach = {i: determined(atoms, frozenset(atom.vars), catalog) for i, atom in enumerate(atoms)}

    def determines(i: int, j: int) -> bool:
        key = key_vars(atoms[j], catalog)
        return i != j and key is not None and key <= reach[i]

    order = range(len(atoms))
    roots = [j for j in order if not any(determines(i, j) and (not determines(j, i) or i < j) for i in order)]
    groups: list[list[Relation]] = []
    taken: set[int] = set()
    for root in roots:
        members = [j for j in order if j not in taken and (j == root or determines(root, j))]
        taken |= set(members)
        groups.append([atoms[j] for j in members])
    return groups
