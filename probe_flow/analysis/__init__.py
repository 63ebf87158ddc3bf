"""Floor 3: policies, origin of divergence, drift, coverage, gate."""
