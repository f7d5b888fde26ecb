"""Blocks on Spark: the local engine in every bucket, with the DataFrame API alone."""
