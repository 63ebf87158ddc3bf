"""Where each row came from, and in which order rows happened."""
