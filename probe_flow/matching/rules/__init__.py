"""Fusion rules of several files, merged into those of one comparison."""
