"""Regional curator: a curator to its owners, an owner to the curator above (docs/decisions/035-tree.md)."""
