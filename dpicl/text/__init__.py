"""Private texts: finding, reading, checking, parting and putting them into prompts."""
