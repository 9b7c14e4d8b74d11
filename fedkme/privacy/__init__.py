"""Privacy: mechanisms, the noise they draw, and what can be proven of them."""
