"""`fedkme dossier`: papers of a run for a registry, a catalogue and a privacy review."""
