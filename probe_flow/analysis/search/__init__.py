"""Where the divergence begins, and what is concluded of it."""
