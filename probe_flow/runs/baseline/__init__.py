"""Baselines made of stored runs."""
