"""Prefect: the flow of a pipeline, what serves and deploys it, and what maintains its server."""
