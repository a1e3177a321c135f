"""The three papers as a checklist, and their tables run whole."""
