"""The parts of `benchmarks.scaling`: the ladder of sizes, the cells, their points, and what is made of them."""
