"""Secure aggregation: the curator learns the sum of the owners' vectors, and of one vector nothing.

Two state machines without any input or output of their own; docs/decisions/005-secure-aggregation.md says who
is protected from whom.
"""
