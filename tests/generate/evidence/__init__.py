"""Draws faults and healthy pairs of many kinds from a seed, and scores what is named."""
