"""The parts of `make bench TOPIC=stranger`."""
