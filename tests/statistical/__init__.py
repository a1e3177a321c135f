"""Samplers have the stated law, mechanisms leak no more than they state, and mutants are caught."""
