"""Files of arrays: npy, npz, zip and torch archives, read without trusting them."""
