"""`fedkme sim sweep`: one simulation for each combination of settings, in one table and on one page."""
