"""Simulations: real parties on one machine, baselines, metrics, reports."""
