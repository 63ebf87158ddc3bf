"""Neighbourhoods of nodes, drawn."""
