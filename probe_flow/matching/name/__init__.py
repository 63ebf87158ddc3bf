"""Matching by name: entries, calls and tensors of equal names."""
