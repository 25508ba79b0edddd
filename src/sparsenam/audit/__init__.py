"""Audit: who pays for a dropped column, how right a model is in subgroups, and what changed between two models."""
