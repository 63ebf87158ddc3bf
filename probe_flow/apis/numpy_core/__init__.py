"""What the most frequent operators compute, in float64 and with numpy alone: the oracle of a plain install."""
