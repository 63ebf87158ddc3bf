"""Matching under a mapping file: modules, APIs, layers or tensors by their other name."""
