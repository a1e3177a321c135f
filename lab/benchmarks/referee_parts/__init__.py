"""The parts of `make bench TOPIC=referee`: claims that somebody else can check, measured."""
