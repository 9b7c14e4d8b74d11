"""Tasks that do not depend on each other, on this machine, on a Ray cluster or as Slurm arrays."""
