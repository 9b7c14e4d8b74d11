"""Base of every protocol's run: the run itself, its journal, its owners, its records."""
