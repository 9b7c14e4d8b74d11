"""Verbs for operators that read more than one role: doctor, audit, payouts."""
