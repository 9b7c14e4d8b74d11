"""Audits of curators' releases and payouts."""
