"""Experiments of the papers, run again: each module is a program, see its head."""
