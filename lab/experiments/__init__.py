"""Experiments of the papers, which `fedkme sim reproduce` runs again."""
