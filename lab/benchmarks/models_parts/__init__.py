"""Parts of the figures of models."""
