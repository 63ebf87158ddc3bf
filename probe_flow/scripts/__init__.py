"""Scripts that run one API again, wherever they are copied to: what they are made of, and what is frozen in them."""
