"""Tables in the layouts of TorchAir comparison."""
