from sklearn.utils.estimator_checks import parametrize_with_checks

import sparsenam
from sparsenam.baselines import NAMClassifier, NAMRegressor

WEIGHTS = "check_sample_weight_equivalence_on_dense_data"
# Weights are scaled to mean 1, so that their unit does not matter. Where nothing but the mean loss depends on them,
# a weight of 2 is then the row twice, and the check passes; below are the cases where something else does.
SMOOTHNESS = {WEIGHTS: "smoothness is chosen by restricted likelihood, which counts rows"}
FOLDS = {WEIGHTS: "alpha is chosen on folds, and repeated rows are dealt to other folds"}
RULE = {WEIGHTS: "the one-standard-error rule counts rows"}
DRAWS = {WEIGHTS: "dropout draws other units for repeated rows"}
CASES = [
    (sparsenam.SNAMRegressor(alpha=0.01, hidden=(8,), random_state=0), {}),
    (sparsenam.SNAMClassifier(alpha=0.01, hidden=(8,), random_state=0), {}),
    (sparsenam.RandomFeatureSNAMRegressor(alpha=0.05), {}),
    (sparsenam.RandomFeatureSNAMClassifier(alpha=0.02), {}),
    (sparsenam.SNAMRegressor(random_state=0), FOLDS),
    (sparsenam.SNAMClassifier(random_state=0), FOLDS),
    (sparsenam.SNAMRegressorCV(random_state=0), SMOOTHNESS),
    (sparsenam.SNAMClassifierCV(random_state=0), SMOOTHNESS),
    (sparsenam.RandomFeatureSNAMRegressorCV(random_state=0), RULE),
    (sparsenam.RandomFeatureSNAMClassifierCV(random_state=0), RULE),
    (NAMRegressor(random_state=0), DRAWS),
    (NAMClassifier(random_state=0), DRAWS),
]


def known_exceptions(estimator):
    return next(reasons for case, reasons in CASES if repr(case) == repr(estimator))


@parametrize_with_checks([case for case, _ in CASES], expected_failed_checks=known_exceptions)
def test_estimator_passes_scikit_learns_check(estimator, check):
    check(estimator)
