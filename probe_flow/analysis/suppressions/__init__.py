"""What does not fail the gate: waivers and the baseline."""
