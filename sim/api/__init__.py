"""Python API: what `import fedkme as fk` offers (docs/python.md, docs/decisions/018)."""
