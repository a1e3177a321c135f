"""Deployment files: nothing here is imported by the flows."""
