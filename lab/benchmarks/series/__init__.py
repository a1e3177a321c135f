"""Tables that grow: counters of a year of nightly releases."""
