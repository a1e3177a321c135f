"""Tables: reading, local and central counts, prompts."""
