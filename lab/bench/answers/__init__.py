"""`fedkme bench answers`: how often intervals of answers hold, over many releases of fresh rows."""
