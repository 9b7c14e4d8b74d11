"""Instruments of the makers: benchmarks, the market of methods, papers' experiments, forecasts' measurements."""
