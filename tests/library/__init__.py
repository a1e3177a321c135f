"""Tests of the library: no orchestrator, no network but this machine."""
