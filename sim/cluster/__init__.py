"""Simulations on a cluster: owners in actors of Ray (docs/decisions/033-cluster.md)."""
