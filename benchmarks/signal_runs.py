"""What `signals.py` measures: one function for each sort of table, from a seed to a list of records.

A record has a ``case`` (which part of the table), a ``method``, the ``seed``, a ``value`` and further numbers.
"""

from functools import partial
from itertools import combinations, permutations

import numpy as np
import pandas as pd
from paper_tables import DATA, TASKS, california
from signal_fits import (
    ebm,
    found,
    fresh_loss,
    jaccard,
    linear,
    one_against_rest,
    ours,
    out_of_fold,
    r_squared,
    score_of,
    timed_fit,
)
from signal_judges import JUDGES, RULES
from signal_tables import WEAK, genes, mixed30k, weak_steps
from sklearn import datasets
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split


def record(case, method, seed, value, fit, **others):
    return {"case": case, "method": method, "seed": seed, "value": value} | fit | others


def law(draw, name, seed, peers):
    """Return R² of the true score on fresh rows; where there is none, whether nothing was kept."""
    table = draw(seed)
    records = []
    for method, make in (("ours", ours), ("lasso", linear))[: 1 + peers]:
        model, fit = timed_fit(make(table.kind, seed), table.X, table.y)
        predicted = score_of(table.kind, model, table.X_fresh)
        if table.true_columns:
            value = r_squared(table.truth, predicted)
        else:
            value, fit["mse_of_truth"] = float(fit["kept"] == 0), float(np.mean((predicted - table.truth) ** 2))
        records.append(record(name, method, seed, value, fit, **found(fit["columns"], table.true_columns)))
    return records


def folds(kind, load, peer, name, seed, peers):
    """Return R² or log loss by five folds; another seed is another partition."""
    X, y = load(return_X_y=True)
    methods = (("ours", ours), ("linear", peer))[: 1 + peers]
    return [
        {"case": name, "method": method, "seed": seed} | out_of_fold(make, kind, X, y, seed) for method, make in methods
    ]


def labels(seed, peers):
    """Return the largest change of a probability when classes change names, for each table and each renaming."""
    records = []
    for name, load in (("wine", datasets.load_wine), ("iris", datasets.load_iris)):
        X, y = load(return_X_y=True)
        model, _ = timed_fit(ours("classification", seed), X, y)
        expected, columns = model.predict_proba(X), np.flatnonzero(model.get_support()).tolist()
        for order in list(permutations(range(3)))[1:]:
            renamed, fit = timed_fit(ours("classification", seed), X, np.array(order)[y])
            difference = float(np.abs(renamed.predict_proba(X)[:, list(order)] - expected).max())
            same = float(fit["columns"] == columns)
            records.append(record(name, "ours", seed, difference, fit, same_columns=same, order=list(order)))
    return records


def named_tables():
    """Return the tables of `stability` and `roworder`: kind, X, y."""
    weak = weak_steps(*WEAK["weak400x30"], seed=900)
    X, y, _ = california(0)
    rows = np.random.default_rng(70).choice(len(y), 2000, replace=False)
    return {
        "diabetes": ("regression", *datasets.load_diabetes(return_X_y=True)),
        "breast_cancer": ("classification", *datasets.load_breast_cancer(return_X_y=True)),
        "weak400x30": ("regression", weak.X, weak.y),
        "friedman1": JUDGES["friedman1"](),
        "california2000": ("regression", X[rows], y[rows]),
    }


def stability(seed, peers):
    """Return what each table keeps under this random_state; `agreement` compares them."""
    records = []
    for name, (kind, X, y) in named_tables().items():
        _, fit = timed_fit(ours(kind, seed), X, y)
        records.append(record(name, "ours", seed, None, fit))
    return records


def agreement(records):
    """Set each record's value to the mean Jaccard index of its columns and those under the other seeds."""
    pairs = {}
    for one, other in combinations(records, 2):
        if one["case"] == other["case"]:
            index = jaccard(one["columns"], other["columns"])
            for each in (one, other):
                pairs.setdefault((each["case"], each["seed"]), []).append(index)
    for each in records:
        each["value"] = float(np.mean(pairs.get((each["case"], each["seed"]), [1.0])))
    return records


def roworder(seed, peers):
    """Return the Jaccard index and the change of held-out loss when the rows come in another order."""
    records = []
    for name, (kind, X, y) in named_tables().items():
        if name == "friedman1":
            continue
        strata = y if kind == "classification" else None
        X, X_fresh, y, y_fresh = train_test_split(X, y, test_size=0.25, random_state=71, stratify=strata)
        order = np.random.default_rng(72_000 + seed).permutation(len(y))
        first, fit = timed_fit(ours(kind, 0), X, y)
        second, other = timed_fit(ours(kind, 0), X[order], y[order])
        # squared errors are shares of the variance, changes of a prediction are in its standard deviations
        spread = float(np.std(y_fresh)) if kind == "regression" else 1.0
        losses = [fresh_loss(kind, model, X_fresh, y_fresh) / spread**2 for model in (first, second)]
        scores = [score_of(kind, model, X_fresh) for model in (first, second)]
        change = {"loss": losses[0], "loss_change": abs(losses[1] - losses[0])}
        change["largest_score_change"] = float(np.abs(scores[0] - scores[1]).max()) / spread
        records.append(record(name, "ours", seed, jaccard(fit["columns"], other["columns"]), other, **change))
    return records


def paper(task, name, seed, peers):
    """Return held-out loss and whether exactly the true columns were kept, as `bench_tables.py` splits the rows."""
    load, kind = TASKS[task]
    X, y, effects = load(seed)
    if task == "wide":  # about selection with 500 rows, so all are trained on
        X_fresh, y_fresh, _ = load(500_000 + seed)
    else:
        X, X_fresh, y, y_fresh = train_test_split(X, y, test_size=0.2, random_state=seed)
    model, fit = timed_fit(ours(kind, seed), X, y)
    others = {}
    if effects is not None:
        others = found(fit["columns"], range(4)) | {"exact": float(fit["columns"] == [0, 1, 2, 3])}
    return [record(name, "ours", seed, fresh_loss(kind, model, X_fresh, y_fresh), fit, **others)]


def gene_tables(seed, peers):
    """Return the share of fresh rows classified rightly for two, three and four classes."""
    records = []
    for classes, rows in ((2, 60), (3, 80), (4, 100)):
        table = genes(classes, rows, seed)
        for method, make in (("ours", ours), ("l1 logistic", one_against_rest))[: 1 + peers]:
            model, fit = timed_fit(make(table.kind, seed), table.X, table.y)
            others = found(fit["columns"], table.true_columns)
            others["log_loss"] = fresh_loss(table.kind, model, table.X_fresh, table.y_fresh)
            value = float(np.mean(model.predict(table.X_fresh) == table.y_fresh))
            records.append(record(f"{classes} classes, {rows} rows", method, seed, value, fit, **others))
    return records


def against_ebm(draw, name, seed, peers):
    """Return the loss on fresh rows beside that of EBM's mains and that of the true score."""
    table = draw(seed)
    records = []
    if table.kind == "regression":
        best = float(np.mean((table.truth - table.y_fresh) ** 2))
    else:
        best = float(log_loss(table.y_fresh, 1 / (1 + np.exp(-table.truth))))
    for method, make in (("ours", ours), ("ebm", ebm))[: 1 + peers]:
        model, fit = timed_fit(make(table.kind, seed), table.X, table.y)
        value = fresh_loss(table.kind, model, table.X_fresh, table.y_fresh)
        others = found(fit["columns"], table.true_columns) | {"loss_of_truth": best}
        records.append(record(name, method, seed, value, fit, **others))
    return records


def mixed_targets(seed, peers):
    """Return both targets of the table of 30,000 rows."""
    cases = {"binary": "classification", "gaussian": "regression"}
    return [each for name, kind in cases.items() for each in against_ebm(partial(mixed30k, kind), name, seed, peers)]


def compas_raw(seed, peers):
    """Return log loss on the columns of the COMPAS file as they are, text included."""
    names = ["age", "age_cat", "sex", "race", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count"]
    names += ["c_charge_degree", "c_charge_desc", "days_b_screening_arrest", "two_year_recid"]
    file = pd.read_csv(DATA / "compas-scores-two-years.csv")
    screened = file.days_b_screening_arrest.between(-30, 30) & (file.is_recid != -1)
    file = file[screened & (file.c_charge_degree != "O") & (file.score_text != "N/A")]
    X, y = file[names], (file.score_text != "Low").to_numpy(int)
    X, X_fresh, y, y_fresh = train_test_split(X, y, test_size=0.2, random_state=seed)
    records = []
    for method, make in (("ours", ours), ("ebm", ebm))[: 1 + peers]:
        model, fit = timed_fit(make("classification", seed), X, y)
        names_kept = [names[place] for place in fit["columns"]]
        value = fresh_loss("classification", model, X_fresh, y_fresh)
        records.append(record("compas_raw", method, seed, value, fit, names=names_kept))
    return records


def judge(name, seed, peers):
    """Return the held-out loss of each rule: 1 - R², log loss, or 1 - concordance."""
    kind, X, y = JUDGES[name]()
    records = []
    for rule, settings in RULES.items():
        result = out_of_fold(partial(ours, **settings), kind, X, y, seed)
        if kind != "classification":
            result["value"] = 1 - result["value"]
        records.append({"case": name, "method": rule, "seed": seed} | result)
    return records
