"""Drafts of schemas from public rows, and checks of files against a schema, before any run."""
