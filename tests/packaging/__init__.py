"""What is built from the repository."""
