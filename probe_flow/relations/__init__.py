"""Facts of one catalog that need no values: what called what."""
