"""Pairs and rows of large comparisons as columns: each is made of them when it is asked for."""
