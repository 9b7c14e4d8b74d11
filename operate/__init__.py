"""Verbs of operators, and the command line of all verbs."""
