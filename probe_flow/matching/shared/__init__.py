"""What the matchers share: executions, nearest names, alignment, the third side."""
