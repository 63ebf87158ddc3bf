"""Runners for TorchAir: FX node by node, and GE on a device."""
