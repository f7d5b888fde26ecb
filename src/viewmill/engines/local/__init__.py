"""The embedded engine: record pools in flat arrays, and compiled loops over them. The only importer of Numba."""
