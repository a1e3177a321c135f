"""The stages of a run, each a function of references that is done once."""
