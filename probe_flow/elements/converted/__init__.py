"""Elements in another layout or dtype, and the files that hold them."""
