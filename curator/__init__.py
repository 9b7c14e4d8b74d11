"""Curator: runs the protocols over the owners that have joined, for the consumers that ask."""
