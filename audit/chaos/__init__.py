"""Schedules of faults in a simulated world: real parties, virtual time, one seed (docs/decisions/016)."""
