"""What is said is so: of what papers print, of what leaves, and of the benches themselves."""
