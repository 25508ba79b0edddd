"""Between ramps, frozen hidden layers and banks of sub-networks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sparsenam.convex.ramps import Ramps
from sparsenam.networks import MLPBank
from sparsenam.tables.scaling import Matrix, Vector


def ramp_bank(
    ramps: Sequence[Ramps], coefficients: Sequence[Matrix], outputs: int, activation: str = "clipped_relu"
) -> tuple[MLPBank, Tensor]:
    """Return the bank whose sub-network j is Σₖ cₖ clip((x - tₖ)/hₖ, 0, 1), and its θ in double precision.

    With ``activation="relu"`` the units are hinges, max((x - tₖ)/hₖ, 0).

    Parameters
    ----------
    ramps
        The ramps of each feature.
    coefficients
        c of each feature, shape (m_j, outputs).
    """
    slopes = [1.0 / np.diff(own.knots) for own in ramps]
    shifts = [-own.knots[:-1] * slope for own, slope in zip(ramps, slopes, strict=True)]
    return unit_bank(slopes, shifts, coefficients, outputs, activation)


def unit_bank(
    slopes: Sequence[Vector],
    shifts: Sequence[Vector],
    coefficients: Sequence[Matrix],
    outputs: int,
    activation: str = "clipped_relu",
) -> tuple[MLPBank, Tensor]:
    """Return the bank whose sub-network j is Σₖ cₖ activation(aₖ x + bₖ), and its θ.

    ``slopes`` a and ``shifts`` b have shape (m_j,), ``coefficients`` c shape (m_j, outputs). The bank is as
    wide as its widest sub-network; narrower ones are padded with zeros. θ has shape (features, size).
    """
    sizes = [slope.size for slope in slopes]
    width = max(sizes, default=1)
    bank = MLPBank((width,), outputs, activation, np.array(sizes, dtype=np.intp).reshape(-1, 1))
    theta = torch.zeros(len(sizes), bank.size, dtype=torch.float64)
    weight, bias, output = bank.tensors(theta)  # views of θ
    for feature, size in enumerate(sizes):
        weight[feature, 0, :size] = torch.as_tensor(slopes[feature])
        bias[feature, 0, :size] = torch.as_tensor(shifts[feature])
        output[feature, :size] = torch.as_tensor(coefficients[feature])
    return bank, theta


def hidden_columns(bank: MLPBank, theta: Tensor, x: Vector, feature: int) -> Matrix:
    """Return the last hidden layer of one sub-network at x of shape (rows,), shape (rows, m).

    With θ frozen these are the random features of the paper's section 3.3. Padded units are left out;
    without hidden layers the one column is x itself.
    """
    place = np.array([feature], dtype=np.intp)
    own, row = bank.take(place), theta[feature : feature + 1].detach().double()
    if not own.hidden:
        return np.array(x, dtype=np.float64)[:, None]
    width = own.hidden[-1]
    # the same network with the identity as its output layer: one output for each hidden unit
    reader = MLPBank(own.hidden, width, own.activation, own.widths)
    start = own.output_columns.start
    identity = torch.eye(width, dtype=torch.float64).reshape(1, -1)
    with torch.no_grad():
        units = reader.effects(torch.cat([row[:, :start], identity], dim=1), torch.as_tensor(x)[None, :])
    used = width if own.widths is None else int(own.widths[0, -1])
    return units[0, :, :used].numpy()


def with_output(bank: MLPBank, theta: Tensor, coefficients: Matrix | Tensor) -> Tensor:
    """Return θ with the output layers ``coefficients``, shape (features, m, outputs)."""
    changed = theta.clone()
    bank.tensors(changed)[-1].copy_(torch.as_tensor(coefficients))
    return changed
