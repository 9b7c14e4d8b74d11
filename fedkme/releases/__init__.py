"""Settings and files of releases, shared by all parties."""
