"""The record of a run: what is written of it, read again, and the words for its values."""
