"""Graph texts of the device compiler: operators, edges, and the names of fused operators."""
