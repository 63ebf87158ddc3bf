"""Floor 4: one module per stage, the only place that wires parts together."""
