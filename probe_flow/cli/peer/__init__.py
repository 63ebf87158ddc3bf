"""Commands in the syntax of msprobe."""
