"""Numbers of a run that lie in a file while it is at work."""
