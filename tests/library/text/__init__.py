"""Private texts."""
