"""The prompt."""
