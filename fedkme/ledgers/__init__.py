"""Sets of ledgers: reading several parties' ledgers as one, and reconciling both sides of an exchange."""
