"""Kernel mean embeddings: the exact kernel, MMD, weighted points and their fit."""
