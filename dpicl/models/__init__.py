"""Language models: what they are asked, and which one answers."""
