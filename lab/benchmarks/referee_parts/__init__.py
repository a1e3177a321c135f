"""The parts of `make bench TOPIC=referee`: what others can check of dpicl, and dpicl of others."""
