"""Many rows at once, figure by figure: arrays in place of a call for each row."""
