"""Moments as a release: from noisy sums to a Gaussian for each class, and a classifier of those."""
