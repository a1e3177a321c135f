"""Installations of real processes."""
