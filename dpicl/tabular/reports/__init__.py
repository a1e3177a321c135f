"""Clients' reports as a collector receives them: read from files, checked, each client counted
once.
"""
