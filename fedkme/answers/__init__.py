"""Questions to a release, answered with intervals from what was released; no row is read."""
