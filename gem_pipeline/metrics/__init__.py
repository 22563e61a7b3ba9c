"""One definition of each metric, with intervals by user; numpy only."""
