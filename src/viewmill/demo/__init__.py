"""`viewmill demo`: orders come, change and go, batch by batch, and views follow; on Spark or in this process."""
