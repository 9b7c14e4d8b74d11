"""Rows for a target: a release is asked for, and its rows are chosen by exact D_v at the consumer."""
