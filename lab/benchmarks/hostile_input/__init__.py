"""Hostile files, paths and addresses."""
