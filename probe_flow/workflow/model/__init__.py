"""The checked workflow."""
