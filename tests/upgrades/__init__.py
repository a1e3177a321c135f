"""Old run folders, and the names that releases are found again by."""
