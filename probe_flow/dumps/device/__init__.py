"""Files that an Ascend device writes, whatever program ran on it."""
