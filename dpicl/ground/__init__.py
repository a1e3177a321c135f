"""What everything rests on: files, errors, types, randomness, processes."""
