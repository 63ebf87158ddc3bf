"""Facts of one catalog that need no elements: what called what, and the levels of an overflow."""
