"""Files of torch: archives and pickles, read without torch."""
