"""Fusion rules: JSON of ATC and AMCT, and the offline model itself."""
