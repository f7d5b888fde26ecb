"""Viewmill keeps SQL views fresh: it compiles a query into an incremental program whose cost follows the change."""
