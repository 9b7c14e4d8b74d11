"""The data owner: one resident process beside its private rows."""
