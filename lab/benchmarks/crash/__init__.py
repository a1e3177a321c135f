"""Death at every step of the release protocol."""
