"""Evaluation of a simulated run: metrics, baselines, privacy."""
