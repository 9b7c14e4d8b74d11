"""Tables of rows: the public schema, files of rows, arrays on disk."""
