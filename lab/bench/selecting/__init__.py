"""Selection of rows that stand for all rows, by `fk.select` and by others."""
