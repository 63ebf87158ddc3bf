"""Runners and taps for MindSpore in PyNative mode."""
