"""Floor 3: strategies that pair two catalogs."""
