"""One patient: how the log odds of a malignant tumour come about, measurement by measurement."""

from sklearn.datasets import load_breast_cancer

from sparsenam import SNAMClassifier
from sparsenam.explain.plots import plot_local


def draw():
    data = load_breast_cancer(as_frame=True)
    y = data.target.map({0: "malignant", 1: "benign"})
    model = SNAMClassifier(random_state=0).fit(data.data, y)
    return plot_local(model.explain_local(data.data.iloc[[73]]))
