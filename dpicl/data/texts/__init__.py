"""Private texts: finding, reading, checking and splitting them, and putting them into prompts."""
