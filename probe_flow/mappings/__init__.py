"""Mapping files: which name of the target is which name of the golden."""
