"""A pipeline on Spark: `make pipeline`."""
