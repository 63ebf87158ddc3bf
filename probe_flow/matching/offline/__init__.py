"""Matching of offline models by fusion rules, by name, or by a guess."""
