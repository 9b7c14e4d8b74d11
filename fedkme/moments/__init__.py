"""Releases of moments: from noisy sums to a Gaussian for each class, and a classifier by these Gaussians."""
