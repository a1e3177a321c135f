"""Measurements: `make bench TOPIC=…`, each ending with one line per figure against its goal."""
