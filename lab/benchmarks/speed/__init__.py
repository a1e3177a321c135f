"""Times of single steps, beside what a user would do."""
