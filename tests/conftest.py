"""Hypothesis repeats itself: the same examples in every run, and no clock on a shared machine."""

from hypothesis import settings

settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")
