"""The list of `make mutants` fits the code that it changes."""

from pathlib import Path

import pytest

from tools import mutants

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda mutant: mutant.name)
def test_the_text_that_a_mutant_changes_is_there_exactly_once(mutant):
    assert mutants.changed(mutant) != (ROOT / mutant.file).read_text(encoding="utf-8")
    assert all((ROOT / name).exists() for name in mutant.tests if name.startswith("tests/"))


def test_a_text_that_is_gone_is_an_error(tmp_path):
    mutant = mutants.MUTANTS[0]
    (tmp_path / mutant.file).parent.mkdir(parents=True)
    (tmp_path / mutant.file).write_text("nothing\n", encoding="utf-8")
    with pytest.raises(LookupError, match="renew the list"):
        mutants.changed(mutant, tmp_path)


def test_names_of_mutants_are_their_own():
    names = [mutant.name for mutant in mutants.MUTANTS]
    assert len(set(names)) == len(names)
