"""Observers of runs: each sends what it is told to a server, by that server's own client."""
