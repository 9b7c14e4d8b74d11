"""Rows for a target from a release that exists, or that is made for it."""
