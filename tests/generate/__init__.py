"""Generators of dumps with known faults."""
