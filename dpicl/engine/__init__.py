"""The engine: plans, run folders, releases, quotes and the stages of a run, without any
orchestrator.
"""
