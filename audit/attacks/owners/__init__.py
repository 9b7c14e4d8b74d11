"""Audits of owners' behaviour beyond their answers: budgets, ledgers, limits, coalitions and timing."""
