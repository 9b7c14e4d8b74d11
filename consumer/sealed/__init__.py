"""Consumer's part of runs whose rows are sealed: keys, opening, models on hashes."""
