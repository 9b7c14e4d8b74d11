"""Tests of curator/planning/."""
