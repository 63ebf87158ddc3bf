"""The summary of a run in a terminal."""
