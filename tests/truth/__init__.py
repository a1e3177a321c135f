"""What is said is so: inputs around the mechanism, in the values and on the page, by row."""
