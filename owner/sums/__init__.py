"""Owner's part of runs of sums, plain or under secure aggregation."""
