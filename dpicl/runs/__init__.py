"""Runs of a pipeline: its grid of units, and the chain of stages that each goes through."""
