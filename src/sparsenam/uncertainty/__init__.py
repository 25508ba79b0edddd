"""Uncertainty: bands about effects, intervals and sets of predictions, and corrected probabilities."""
