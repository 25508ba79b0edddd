"""The short form of the attacks on runs: a few kills, and a few times Ctrl-C."""

from fuzz import kills, signals


def test_a_killed_fit_goes_on_to_the_same_bits_and_leaves_nothing_partial_stale_or_over():
    assert kills.attack(seed=0, count=4, say=print) == []


def test_a_stopped_fit_ends_in_one_sentence_and_goes_on_to_the_same_bits():
    assert signals.attack(seed=0, count=2, say=print) == []
