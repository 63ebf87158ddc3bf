"""Sums, extremes and counts of a block, and how blocks fold into one record."""
