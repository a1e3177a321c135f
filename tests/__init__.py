"""Claims and their tests."""
