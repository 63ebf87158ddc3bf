"""What minimum, maximum, mean and norm prove of a target, by its own inputs and by what others gave."""
