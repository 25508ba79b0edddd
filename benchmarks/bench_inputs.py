"""What the libraries of `bench_peers.py` read where they cannot read a table as it is: numbers.

Runs in every library's interpreter, so it needs no more than numpy, pandas and scikit-learn. The time of these steps
counts as time of the fit and of predicting: a user would have to take them too.
"""

import numpy as np


class Numbers:
    """A table as a standardised matrix: categories as 0/1 columns, missing cells filled and marked; a matrix stays.

    ``source`` has the table's column of each column of the matrix.
    """

    def __init__(self, X, standardise=True):
        from sklearn.preprocessing import StandardScaler

        self.columns = None if isinstance(X, np.ndarray) else categories_and_numbers(X)
        self.source = np.arange(X.shape[1])
        if self.columns is not None:
            self.encoder = encoder_of(*self.columns).fit(X)
            self.source = self.sources(X)
        self.scaler = StandardScaler(with_mean=standardise, with_std=standardise).fit(self.plain(X))

    def plain(self, X):
        return X if self.columns is None else np.asarray(self.encoder.transform(X), float)

    def __call__(self, X):
        return self.scaler.transform(self.plain(X))

    def sources(self, X):
        """Return the table's column of each column that the encoder makes."""
        categories, numbers = self.columns
        sources = [X.columns.get_loc(name) for name in numbers]
        imputer = self.encoder.named_transformers_["numbers"]
        sources += [X.columns.get_loc(numbers[place]) for place in imputer.indicator_.features_]
        if not categories:  # then the encoder has not been fitted
            return np.array(sources)
        onehot = self.encoder.named_transformers_["categories"]
        for name, levels, dropped in zip(categories, onehot.categories_, onehot.drop_idx_, strict=True):
            sources += [X.columns.get_loc(name)] * (len(levels) - (dropped is not None))
        return np.array(sources)


def categories_and_numbers(X):
    """Return the names of the columns of text, and of all others."""
    categories = [name for name in X.columns if X[name].dtype.kind not in "fib"]
    return categories, [name for name in X.columns if name not in categories]


def encoder_of(categories, numbers):
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OneHotEncoder

    return ColumnTransformer(
        [
            ("numbers", SimpleImputer(strategy="median", add_indicator=True), numbers),
            ("categories", OneHotEncoder(handle_unknown="ignore", drop="if_binary", sparse_output=False), categories),
        ]
    )


def as_categories(train):
    """Return a function that gives text columns the type `category`, with the levels of the training rows."""
    if isinstance(train, np.ndarray):
        return lambda X: X
    import pandas as pd

    categories, _ = categories_and_numbers(train)
    types = {name: pd.CategoricalDtype(sorted(train[name].dropna().unique())) for name in categories}
    return lambda X: X.astype(types)


class Codes:
    """A table as a matrix in which a category is a whole number; a matrix stays.

    ``is_category`` says which columns are categories. Missing numbers become the median; missing and new levels become
    the most frequent one, because pyGAM refuses to predict for a level that it has not seen.
    """

    def __init__(self, X):
        self.levels, self.medians = {}, {}
        self.is_category = np.zeros(X.shape[1], bool)
        if isinstance(X, np.ndarray):
            return
        categories, numbers = categories_and_numbers(X)
        self.is_category = np.array([name in categories for name in X.columns])
        self.levels = {name: list(X[name].value_counts().index) for name in categories}  # the most frequent first
        self.medians = {name: float(X[name].median()) for name in numbers}

    def __call__(self, X):
        if isinstance(X, np.ndarray):
            return X
        import pandas as pd

        columns = [
            np.maximum(pd.Categorical(X[name], categories=self.levels[name]).codes, 0)
            if name in self.levels
            else X[name].fillna(self.medians[name])
            for name in X.columns
        ]
        return np.column_stack(columns).astype(float)
