"""survival."""
