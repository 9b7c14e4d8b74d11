"""Lifecycle of runs: preparation, consent, queue, the runs of summaries and releases, and their ends."""
