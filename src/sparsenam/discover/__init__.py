"""Discover: tests with false discoveries under control, stability of the choice, and models as good."""
