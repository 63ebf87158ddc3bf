"""Questions to a stored run, and their answers as text."""
