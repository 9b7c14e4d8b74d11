"""Releases of pooled kernel mean embeddings: each module is a service of the curator, see its head."""
