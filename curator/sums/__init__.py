"""Runs of sums at the curator: owners are asked for vectors, plainly or under secure aggregation."""
