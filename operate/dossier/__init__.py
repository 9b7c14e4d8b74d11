"""`fedkme dossier`: papers of a run, for a registry, a catalogue and whoever evaluates its privacy."""
