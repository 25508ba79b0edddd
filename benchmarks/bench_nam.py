"""A neural additive model as it is usually written in PyTorch: one network a column in a loop, Adam, early stopping.

It is the reference for time that `bench.py` compares with; columns are not chosen.
"""

import numpy as np
import torch


class Networks(torch.nn.Module):
    """Σⱼ hⱼ(xⱼ) + β, each hⱼ with hidden layers of 100 and 50 units."""

    def __init__(self, columns):
        super().__init__()
        layers = [
            torch.nn.Sequential(
                torch.nn.Linear(1, 100),
                torch.nn.ReLU(),
                torch.nn.Linear(100, 50),
                torch.nn.ReLU(),
                torch.nn.Linear(50, 1, bias=False),
            )
            for _ in range(columns)
        ]
        self.networks = torch.nn.ModuleList(layers)
        self.intercept = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x):
        total = self.intercept
        for column, network in enumerate(self.networks):
            total = total + network(x[:, column : column + 1])[:, 0]
        return total


def fit_networks(X, y, is_regression, train, test, seed, batch=256, patience=10, max_epochs=200):
    """Return the networks of the epoch with the smallest loss on the rows ``test``."""
    torch.manual_seed(seed)
    x, target = torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(y, dtype=torch.float32)
    model = Networks(X.shape[1])
    loss = torch.nn.MSELoss() if is_regression else torch.nn.BCEWithLogitsLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-6)
    generator = np.random.default_rng(seed)
    best, best_state, waited = np.inf, None, 0
    for _ in range(max_epochs):
        for rows in np.array_split(generator.permutation(train), max(1, len(train) // batch)):
            optimizer.zero_grad()
            loss(model(x[rows]), target[rows]).backward()
            optimizer.step()
        with torch.no_grad():
            now = float(loss(model(x[test]), target[test]))
        waited += 1
        if now < best:
            best, waited = now, 0
            best_state = {name: value.clone() for name, value in model.state_dict().items()}
        if waited >= patience:
            break
    model.load_state_dict(best_state)
    return model


def scores_of(model, X):
    with torch.no_grad():
        return model(torch.as_tensor(X, dtype=torch.float32)).numpy().astype(float)
