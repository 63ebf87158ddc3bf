"""A comparison as a file, with all that reports ask for."""
