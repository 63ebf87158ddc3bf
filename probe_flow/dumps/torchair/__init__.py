"""Dumps of TorchAir: the device graph (GE) and the framework graph (FX)."""
