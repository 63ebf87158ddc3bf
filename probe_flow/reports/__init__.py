"""Floor 3: result files and the terminal summary."""
