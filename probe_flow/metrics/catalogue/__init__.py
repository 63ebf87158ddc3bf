"""Metrics as data: formulas, sets, and those of installed packages."""
