"""Random features and the convex problem on them: exact solver, duality gap, certificate."""
