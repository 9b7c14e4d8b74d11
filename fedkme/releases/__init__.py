"""Settings and files of releases that all parties share."""
