"""What outlives a process: files that are whole or not there, and the history of committed batches."""
