"""Curves with bands: what measurements at the start say of diabetes a year later (442 patients)."""

from sklearn.datasets import load_diabetes

from sparsenam import SNAMRegressor
from sparsenam.explain.plots import plot_shapes

NAMES = {"s1": "cholesterol", "s2": "LDL", "s3": "HDL", "s4": "ratio", "s5": "log triglycerides", "s6": "glucose"}
NAMES |= {"bmi": "body mass index", "bp": "blood pressure"}


def draw():
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    model = SNAMRegressor(feature_types={"sex": "category"}, random_state=0).fit(X.rename(columns=NAMES), y)
    return plot_shapes(model.explain(), 4)
