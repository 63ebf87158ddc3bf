"""Folders of arrays of any program."""
