"""Floor 2: the one-pass kernel, statistics and the metric registry."""
