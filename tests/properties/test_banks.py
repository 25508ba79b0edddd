"""Banks of sub-networks: gradients, layouts and draws."""

import numpy as np
import pytest
import torch

from sparsenam.context import Streams
from sparsenam.errors import InputError
from sparsenam.networks.bank import ACTIVATION_NAMES, MLPBank, build_bank, outputs_of
from sparsenam.networks.bank import initial_parameters as drawn
from sparsenam.networks.stacked import UnitFunctions

NAMES = ["age", "income", "rooms"]


def initial_parameters(bank, names, streams):
    return torch.as_tensor(drawn(bank, names, streams))


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("hidden", [(), (5,), (5, 4), (4, 3, 2)])
@pytest.mark.parametrize("activation", ACTIVATION_NAMES)
def test_backward_pass_is_the_derivative_of_the_forward_pass(activation, hidden, outputs):
    bank = build_bank(hidden, NAMES, outputs, activation)
    theta = initial_parameters(bank, NAMES, Streams(1)).requires_grad_()
    x = torch.randn(3, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    assert torch.autograd.gradcheck(lambda t: bank.effects(t, x), (theta,))


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("hidden", [(), (5,), (4, 3, 2)])
@pytest.mark.parametrize("activation", ACTIVATION_NAMES)
def test_numpy_gives_what_the_differentiable_pass_gives(activation, hidden, outputs):
    bank = build_bank(hidden, NAMES, outputs, activation)
    theta = drawn(bank, NAMES, Streams(1))
    x = np.random.default_rng(2).normal(size=(3, 300))
    expected = bank.effects(torch.as_tensor(theta), torch.as_tensor(x)).numpy()
    np.testing.assert_allclose(outputs_of(bank, theta, x), expected, rtol=1e-12, atol=1e-13)


def test_paper_architecture_has_5300_parameters_and_5350_for_two_outputs():
    assert MLPBank((100, 50), 1, "relu").size == 5300
    assert MLPBank((100, 50), 2, "relu").size == 5350


@pytest.mark.parametrize("activation", ["relu", "exu"])
def test_narrow_sub_networks_equal_banks_of_their_own(activation):
    widths = {"age": (2, 3), "income": (5, 4), "rooms": (1, 1)}
    bank = build_bank(widths, NAMES, 2, activation)
    theta = initial_parameters(bank, NAMES, Streams(3))
    padding = bank.padding()
    assert not theta[torch.as_tensor(padding)].any()
    x = torch.randn(3, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    together = bank.effects(theta, x)
    for term, name in enumerate(NAMES):
        alone = build_bank(widths[name], [name], 2, activation)
        theta_alone = initial_parameters(alone, [name], Streams(3))
        assert theta_alone.numel() == int((~padding[term]).sum())
        torch.testing.assert_close(alone.effects(theta_alone, x[term : term + 1])[0], together[term])


def test_draws_depend_on_the_name_alone():
    bank = build_bank((4,), NAMES, 1, "relu")
    forwards = initial_parameters(bank, NAMES, Streams(5))
    backwards = initial_parameters(bank, NAMES[::-1], Streams(5))
    assert torch.equal(forwards, backwards.flip(0))
    assert not torch.equal(forwards, initial_parameters(bank, NAMES, Streams(6)))


def test_unit_functions_have_the_amplitude_as_their_size():
    inner = build_bank((6,), NAMES, 2, "tanh")
    bank = UnitFunctions(inner)
    x = torch.randn(3, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    theta = initial_parameters(bank, NAMES, Streams(1))
    theta[:, bank.output_columns] = torch.tensor([[3.0, 4.0], [0.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    sizes = bank.effects(theta, x).square().mean(1).sum(1).sqrt()
    torch.testing.assert_close(sizes, torch.tensor([5.0, 0.0, 1.0], dtype=torch.float64))


def test_wrapping_and_unwrapping_unit_functions_keeps_the_centred_effects():
    inner = build_bank((6, 3), NAMES, 2, "relu")
    bank = UnitFunctions(inner)
    x = torch.randn(3, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    theta = initial_parameters(inner, NAMES, Streams(1))
    raw = inner.effects(theta, x)
    centred = raw - raw.mean(1, keepdim=True)
    wrapped = bank.wrap(theta, x)
    torch.testing.assert_close(bank.effects(wrapped, x), centred)
    unwrapped, beyond = bank.unwrap(wrapped, x)
    again = inner.effects(unwrapped, x)
    torch.testing.assert_close(again - again.mean(1, keepdim=True), centred)
    torch.testing.assert_close(again.sum(0) - beyond, centred.sum(0))


@pytest.mark.parametrize(
    "hidden", [(0,), (2.5,), {"age": (3,)}, {"age": (3,), "income": (3, 2), "rooms": (3,)}], ids=str
)
def test_impossible_widths_are_refused(hidden):
    with pytest.raises(InputError, match="hidden"):
        build_bank(hidden, NAMES, 1, "relu")


def test_an_unknown_activation_is_refused():
    with pytest.raises(InputError, match="activation"):
        build_bank((3,), NAMES, 1, "sigmoid")


def test_streams_are_repeatable_and_independent():
    streams = Streams(7)
    assert streams.generator("a").integers(2**60) == streams.generator("a").integers(2**60)
    assert streams.generator("a").integers(2**60) != streams.generator("b").integers(2**60)
