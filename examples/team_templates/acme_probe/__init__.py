"""Workflow templates of a team; the files lie in `workflows`, there is no code."""
