"""Operators as the names and attributes of one framework have them, made of what the modules beside compute."""
