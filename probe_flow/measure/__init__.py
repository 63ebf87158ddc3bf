"""Measuring pairs: tasks, batches, what is kept of earlier runs."""
