"""Floor 1: numeric dtypes and storage layouts, and their conversions."""
