"""Issue 4, "A hostile peer: ... no crash, no hang, no unbounded memory, no answer that carries data"."""
