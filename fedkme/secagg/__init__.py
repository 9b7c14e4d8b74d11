"""Secure aggregation: the curator learns the sum of the owners' vectors, and nothing about a single vector.

Two state machines without input or output of their own; docs/decisions/005-secure-aggregation.md says which
party is protected from which.
"""
