"""What is installed, and whether it works."""
