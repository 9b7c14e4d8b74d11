"""Payouts to owners: pure functions, each with a statement of what the amounts reveal."""
