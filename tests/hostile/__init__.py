"""Hostile peers: no crash, no hang, no unbounded memory, no answer that carries data."""
