"""Commands around workflow files: to start one, to check it, to know what may stand in it."""
