"""Our numbers against other people's programs."""
