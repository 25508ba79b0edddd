from sklearn.utils.estimator_checks import parametrize_with_checks

import sparsenam
from sparsenam.baselines import NAMClassifier, NAMRegressor

WEIGHTS = "check_sample_weight_equivalence_on_dense_data"
# A weight of 2 is the row twice for every fit with a given alpha, which the first two estimators here show.
# Folds dealt to rows differ from folds dealt to repeated rows, as for every cross-validated estimator, and
# dropout draws other units for other rows.
FOLDS_DIFFER = {WEIGHTS: "alpha by cross-validation: repeated rows are dealt to other folds"}
DRAWS_DIFFER = {WEIGHTS: "dropout: repeated rows draw other units"}
GIVEN_ALPHA = [
    sparsenam.SNAMRegressor(alpha=0.05, random_state=0),
    sparsenam.SNAMClassifier(alpha=0.02, random_state=0),
    sparsenam.SNAMRegressor(alpha=0.01, hidden=(8,), random_state=0),
    sparsenam.RandomFeatureSNAMRegressor(alpha=0.05),
    sparsenam.RandomFeatureSNAMClassifier(alpha=0.02),
]
CHOSEN_ALPHA = [
    sparsenam.SNAMRegressor(random_state=0),
    sparsenam.SNAMClassifier(random_state=0),
    sparsenam.SNAMRegressorCV(random_state=0),
    sparsenam.SNAMClassifierCV(random_state=0),
    sparsenam.RandomFeatureSNAMRegressorCV(random_state=0),
    sparsenam.RandomFeatureSNAMClassifierCV(random_state=0),
]
BASELINES = [NAMRegressor(random_state=0), NAMClassifier(random_state=0)]


def known_exceptions(estimator):
    if isinstance(estimator, NAMRegressor | NAMClassifier):
        return DRAWS_DIFFER
    return FOLDS_DIFFER if getattr(estimator, "alpha", "auto") == "auto" else {}


@parametrize_with_checks([*GIVEN_ALPHA, *CHOSEN_ALPHA, *BASELINES], expected_failed_checks=known_exceptions)
def test_estimator_passes_scikit_learns_check(estimator, check):
    check(estimator)
