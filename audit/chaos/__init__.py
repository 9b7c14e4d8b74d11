"""Schedules of faults in a world of real parties, virtual time and one seed (docs/decisions/016)."""
