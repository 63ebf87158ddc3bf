"""Tables of several ranks, merged."""
