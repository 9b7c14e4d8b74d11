"""Payments to owners, and what a payment tells: pure functions, each with its privacy statement."""
