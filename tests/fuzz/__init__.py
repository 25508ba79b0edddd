"""Attacks on the library and the command: seeded, bounded, each a function from a seed to what did not hold."""
