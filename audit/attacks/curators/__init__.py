"""Audits of curators' releases."""
