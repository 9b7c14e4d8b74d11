"""Lifecycle of runs: the queue, the journal, what a run draws in public, and its files on disk."""
