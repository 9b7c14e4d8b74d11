"""Independent tasks on this machine, on a Ray cluster or as Slurm arrays."""
