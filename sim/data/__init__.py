"""Public data sets of the shipped scenarios and of the papers: where each comes from, and how to get it."""
