"""Summaries by margins of D_v over a public model of the pool, beside summaries by cells."""
