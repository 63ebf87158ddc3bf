"""Floor 7: click commands, one module each; no logic of their own."""
