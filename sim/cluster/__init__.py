"""Simulations on a cluster: owners in actors of Ray (docs/decisions/024-many-owners-and-clusters.md)."""
