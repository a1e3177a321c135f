"""The parts of `make bench TOPIC=stranger`: a stranger's day, measured."""
