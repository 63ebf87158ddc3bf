"""Dumps of eager PyTorch and MindSpore programs: dump.json and the files beside it."""
