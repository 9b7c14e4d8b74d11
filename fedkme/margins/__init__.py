"""Margins of D_v over a public model of the pool, and the density of D_v that follows from both."""
