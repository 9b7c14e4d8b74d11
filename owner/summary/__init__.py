"""Owner's part of Algorithm 3 and of uniform sampling: bids and rows."""
