"""Estimators with a network, from one flat set of settings."""

from sparsenam import Network

OF_NETWORK = frozenset(Network().get_params())


def trained(estimator, **settings):
    """Return an estimator with a network: settings that `Network` has are its, the others the estimator's."""
    network = {name: value for name, value in settings.items() if name in OF_NETWORK}
    rest = {name: value for name, value in settings.items() if name not in OF_NETWORK}
    return estimator(**rest, network=Network(**network))
