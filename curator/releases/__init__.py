"""Releases of synthetic data from pooled statistics: methods, their mathematics and their files."""
