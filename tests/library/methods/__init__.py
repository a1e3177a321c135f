"""Methods, their plans, baselines and published numbers."""
