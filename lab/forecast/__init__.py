"""Plans of scenarios, and how far they are off: measurements beside predictions."""
