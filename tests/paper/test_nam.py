"""NAM: scikit-learn's checks, every column kept, and what an estimator from outside the library cannot do."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from paper.models import NAMClassifier, NAMRegressor, SPAMRegressor
from sparsenam.errors import InputError
from sparsenam.export import ModelFileError

# scikit-learn 1.6 runs the second for all, as the first
WEIGHTS = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")


def table(rows=120, seed=0):
    generator = np.random.default_rng(seed)
    X = pd.DataFrame(generator.normal(size=(rows, 4)), columns=["bmi", "age", "sex", "dose"])
    return X, 3 * np.sin(2 * X["age"]) + X["dose"] ** 2 + 0.1 * generator.normal(size=rows)


@pytest.fixture(scope="module")
def quick():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # two epochs converge nowhere
        return NAMRegressor(hidden=(4,), max_epochs=2, random_state=0).fit(*table())


@parametrize_with_checks([NAMRegressor(random_state=0), NAMClassifier(random_state=0)])
def test_estimator_passes_scikit_learns_check(estimator, check):
    try:
        check(estimator)
    except Exception:  # a promise that was not made may be kept by chance, on one processor or version
        if check.func.__name__ not in WEIGHTS:
            raise
        pytest.xfail("dropout draws other units for repeated rows")


def test_nam_keeps_every_feature():
    X, y = table()
    model = NAMRegressor(hidden=(8,), max_epochs=20, random_state=0).fit(X, y)
    assert model.n_parameters_ == 4 * 24 + 1
    assert NAMClassifier(hidden=(8,), max_epochs=20, random_state=0).fit(X, y > 0).score(X, y > 0) > 0.6


def test_its_explanation_says_that_nothing_was_penalised(quick):
    assert {column.reason for column in quick.explain().features} == {"no penalty: every column stays"}


def test_questions_about_the_choice_are_refused(quick):
    for question in (quick.stability, quick.alternatives):
        with pytest.raises(InputError, match="chosen by the convex problem"):
            question(*table())


def test_a_model_file_is_refused_in_one_sentence(quick, tmp_path):
    expected = "expected an estimator of this library, got the custom class NAMRegressor"
    with pytest.raises(ModelFileError, match=expected):
        quick.save(tmp_path / "model.snam")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", [NAMRegressor, NAMClassifier, SPAMRegressor])
def test_the_html_view_links_to_no_page_of_the_library(kind):
    assert "readthedocs" not in kind()._repr_html_()
