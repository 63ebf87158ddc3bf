"""Floor 5: YAML to a validated workflow."""
