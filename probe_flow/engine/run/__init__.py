"""A run: plan, stages, record, cache."""
