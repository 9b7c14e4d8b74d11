"""Python API: the functions of `import fedkme as fk` (docs/python.md, docs/decisions/018)."""
