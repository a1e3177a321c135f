"""Private tables: reading, checking, encoding, grouping, averaging and wording them."""
