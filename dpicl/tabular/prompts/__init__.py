"""From released rows to the sentences of a prompt, and which of them demonstrate."""
