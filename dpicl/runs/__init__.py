"""Runs of a pipeline: its grid of units, and the chain of stages that each goes through.

The engine: plans, run folders, releases, quotes and the stages of a run, without any orchestrator.
"""
