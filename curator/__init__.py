"""The curator: runs the protocols over the owners who dialled in."""
