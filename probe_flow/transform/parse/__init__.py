"""Dumped files, one by one, as arrays."""
