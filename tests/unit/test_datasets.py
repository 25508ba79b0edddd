"""The synthetic tasks have the effects that their formulas say."""

import numpy as np
import pytest

from sparsenam.datasets import true_effects


def test_the_effects_of_the_paper_have_the_values_that_its_formulas_have_by_hand():
    """2x² tanh x; sin x cos x + x²; 20/(1 + e^(-5 sin x)); 20 sin³ 2x - 6 cos x + x², where these are known numbers."""
    quarter, half = np.pi / 4, np.pi / 2
    expected = {
        0.0: (0.0, 0.0, 10.0, -6.0),
        np.log(3.0): (1.6 * np.log(3.0) ** 2, None, None, None),  # tanh(log 3) = 4/5
        quarter: (None, 0.5 + quarter**2, None, 20.0 - 6.0 * np.sqrt(0.5) + quarter**2),
        -quarter: (None, -0.5 + quarter**2, None, -20.0 - 6.0 * np.sqrt(0.5) + quarter**2),
        half: (None, half**2, 20.0 / (1.0 + np.exp(-5.0)), half**2),
        -half: (None, half**2, 20.0 / (1.0 + np.exp(5.0)), half**2),
        np.pi: (None, np.pi**2, 10.0, 6.0 + np.pi**2),
    }
    for x, values in expected.items():
        found = true_effects(np.full((1, 6), x))[0]
        assert list(found[4:]) == [0.0, 0.0]
        for effect, value in zip(found, values, strict=False):
            assert value is None or effect == pytest.approx(value, abs=1e-12)
