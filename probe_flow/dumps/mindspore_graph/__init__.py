"""Kernel dumps of MindSpore's graph mode."""
