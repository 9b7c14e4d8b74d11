"""Replay of other people's releases of private tables, and the faults that it found (docs/peers.md)."""
