"""Graphs of models: built from the calls of a dump, paired, scored, with levels of overflow and links across ranks."""
