"""A few of the random tables that `make fuzz` tries by the hundred."""

from fuzz import tables


def test_random_tables_are_fitted_explained_and_saved_or_refused_in_one_sentence():
    assert tables.attack(0, 25, print) == []
