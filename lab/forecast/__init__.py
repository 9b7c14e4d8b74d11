"""Measurements behind the constants of plans, and the errors of plans."""
