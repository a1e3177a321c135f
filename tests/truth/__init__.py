"""What is said is so: inputs around the mechanism, in the values and on the page, each row with a
mutant that it catches.
"""
