"""Sealed boxes, in which a curator carries a group secret and the consumer's rows unread.

State machines without input or output; docs/decisions/010-hashed-rows.md says which party is protected from
which.
"""
