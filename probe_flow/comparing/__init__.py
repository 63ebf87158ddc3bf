"""The steps of a comparison: measure, judge, search, cover, suppress, look closer."""
