"""Progress of runs for people: lines, and bars where there is a terminal."""
