"""Curator's part of a summary by cells: post-processing of private releases."""
