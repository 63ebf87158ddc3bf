"""Gradients of operators, in float64 and with numpy alone: rules by operator, and how far those of a dump are off."""
