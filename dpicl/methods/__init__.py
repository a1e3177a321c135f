"""One paper, one page: each module reads like the method it implements."""
