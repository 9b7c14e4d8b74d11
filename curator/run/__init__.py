"""Parts of one run that every protocol stands on: the run, its journal, its owners, its records."""
