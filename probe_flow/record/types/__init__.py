"""What is stored of a run, declared once: the reader, the validation and the JSON Schemas come from these types."""
