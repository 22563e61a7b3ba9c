"""Delta tables to jagged batches, without Spark."""
