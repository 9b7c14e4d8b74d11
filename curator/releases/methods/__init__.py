"""Methods of releases: a small module for each; the table of protocols has their rows."""
