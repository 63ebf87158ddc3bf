"""Reduced dump files: statistics in place of tensors."""
