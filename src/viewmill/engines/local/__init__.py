"""The engine in this process: record pools, and compiled triggers."""
