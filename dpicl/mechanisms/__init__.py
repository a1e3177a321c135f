"""Noise steps: one mechanism, one file, each with its guarantee as a value."""
