"""Networks: one sub-network for each term, stacked on axis 0. PyTorch is loaded where they are trained."""
