"""Scripts tried before they are offered: below one process that imports their framework, and what they found."""
