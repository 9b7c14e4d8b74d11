"""Sealed boxes, and what goes through a curator in them: a group secret, and rows for the consumer.

State machines without any input or output; docs/decisions/010-hashed-rows.md says who is protected
from whom.
"""
