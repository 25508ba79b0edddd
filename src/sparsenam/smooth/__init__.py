"""smooth."""
