"""Engines: ways to run the parties, in one process or in a process each."""
