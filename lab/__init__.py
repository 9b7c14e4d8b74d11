"""Instruments of the makers: benchmarks, market of methods, papers' experiments, measured forecasts."""
