"""How far each row may be off: rounding, errors of its inputs, what the dump does not show."""
