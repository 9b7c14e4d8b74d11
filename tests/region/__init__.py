"""Tests of regional curators (docs/decisions/035-tree.md)."""
