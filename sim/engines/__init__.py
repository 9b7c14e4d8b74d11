"""Engines: the same parties in one process or as many."""
