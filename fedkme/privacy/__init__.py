"""Privacy: mechanisms, the noise that they draw, and proven bounds of their loss."""
