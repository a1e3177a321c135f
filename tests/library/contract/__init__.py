"""Contracts and pipelines."""
