"""What works together: ways of fitting against uses of a model, each pair checked by a test and shown on a page."""
