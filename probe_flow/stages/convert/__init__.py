"""Stages that write tensors as other files."""
