from sklearn.utils.estimator_checks import parametrize_with_checks

from sparsenam import SNAMClassifier, SNAMRegressor

ESTIMATORS = [
    SNAMRegressor(random_state=0),
    SNAMClassifier(random_state=0),
]


@parametrize_with_checks(ESTIMATORS)
def test_estimator_passes_scikit_learns_check(estimator, check):
    check(estimator)
