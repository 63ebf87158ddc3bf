"""Matching of TorchAir dumps through the graph text."""
