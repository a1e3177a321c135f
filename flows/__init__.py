"""Wiring only: which stage follows which, the command line, and the report."""
