"""One fit: its settings, the problem of each kind of target, the pipeline, and `Fit`, the value that it returns."""
