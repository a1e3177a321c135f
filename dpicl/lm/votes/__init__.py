"""Texts that many prompts write together: votes in whole numbers."""
