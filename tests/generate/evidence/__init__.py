"""Draws faults and healthy pairs from a seed, over the kinds that issue reports asked about, and scores what is named."""
