"""Five tables with long names and the models fitted to them: what reports of real fits look like."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from sparsenam import SNAMClassifier, SNAMRegressor, SNAMSurvival, survival_target
from sparsenam.explain.performance import class_performance, number_performance

ROWS = 400


def houses():
    """Return, with its table, a model of prices: years, and levels that differ in their middle only."""
    draw = np.random.default_rng(0)
    styles = [f"One_and_Half_{part}_All_Ages" for part in ("Finished", "Unfinished", "Remodelled")] + ["Two_Story"]
    quality = ["Poor", "Fair", "Typical", "Good"]
    table = pd.DataFrame(
        {
            "Total_Above_Ground_Living_Area_In_Square_Feet": draw.lognormal(7.2, 0.35, ROWS).round(),
            "Lot_Area": draw.lognormal(9.1, 0.9, ROWS).round(),
            "Year_Built": draw.integers(1880, 2011, ROWS),
            "MS_SubClass_Of_The_Dwelling_As_Recorded": draw.choice(styles, ROWS, p=[0.3, 0.2, 0.1, 0.4]),
            "Kitchen": pd.Categorical(draw.choice(quality, ROWS), quality, ordered=True),
        }
    )
    level = table.iloc[:, 3].map(dict(zip(styles, (15e3, -22e3, 9e3, 0.0), strict=True)))
    price = 90.0 * table.iloc[:, 0] + 900.0 * (table["Year_Built"] - 1950) + 14e3 * np.log(table["Lot_Area"]) + level
    price = price + 9e3 * table["Kitchen"].cat.codes + draw.normal(0, 12e3, ROWS)
    return SNAMRegressor(random_state=0, verbose=False).fit(table, price.rename("Sale_Price")), table


def census():
    """Return, with its table, a model of two classes: a column is 0 in most rows and far out in others."""
    draw = np.random.default_rng(1)
    jobs = ["Married-civilian-spouse-present-in-household", "Married-armed-forces-spouse-absent", "Never-married"]
    table = pd.DataFrame(
        {
            "capital_gain": np.where(draw.random(ROWS) < 0.3, draw.lognormal(8.3, 1.2, ROWS).round(), 0.0),
            "hours_worked_in_an_average_week": draw.integers(5, 80, ROWS).astype(float),
            "marital_status": draw.choice(jobs, ROWS),
            "survey_year": draw.integers(1987, 2021, ROWS),
        }
    )
    score = 0.5 * np.log1p(table["capital_gain"]) + 0.06 * table["hours_worked_in_an_average_week"] - 4.5
    score = score + table["marital_status"].map(dict(zip(jobs, (1.5, 0.5, -1.0), strict=True)))
    table.loc[::9, "hours_worked_in_an_average_week"] = np.nan
    rich = np.where(score + draw.logistic(size=ROWS) > 0, "more than 50,000 dollars", "at most 50,000 dollars")
    return SNAMClassifier(random_state=0, verbose=False).fit(table, rich), table


def patients():
    """Return, with its table, a model of survival times."""
    draw = np.random.default_rng(2)
    table = pd.DataFrame(
        {
            "age_at_first_diagnosis_in_completed_years": draw.integers(25, 90, ROWS).astype(float),
            "progesterone_receptor_in_femtomoles_per_litre": draw.lognormal(4.0, 1.4, ROWS),
            "hormonal_therapy": draw.choice(["no adjuvant hormonal therapy", "adjuvant hormonal therapy"], ROWS),
        }
    )
    risk = 0.04 * (table.iloc[:, 0] - 55) - 0.4 * np.log(table.iloc[:, 1]) + (table.iloc[:, 2].str.len() > 25) * 0.6
    times, ends = draw.exponential(900 * np.exp(-risk - 1.5)), draw.uniform(200, 3000, ROWS)
    target = survival_target(times <= ends, np.minimum(times, ends))
    return SNAMSurvival(random_state=0, verbose=False).fit(table, target), table


def flowers():
    """Return, with its table, a model of three classes whose names are long and alike."""
    draw = np.random.default_rng(3)
    classes = np.array([f"Iris setosa subspecies {name} of the northern shore" for name in ("alba", "media", "rubra")])
    kind = draw.integers(0, 3, ROWS)
    table = pd.DataFrame(
        {
            "petal length, measured along the outer edge (cm)": kind * 1.1 + draw.normal(size=ROWS),
            "sepal width": (kind == 1) * 1.5 + draw.normal(size=ROWS),
            "habitat": np.where(draw.random(ROWS) < 0.6, np.array(["dune", "marsh", "meadow"])[kind], "unknown"),
        }
    )
    return SNAMClassifier(random_state=0, verbose=False).fit(table, classes[kind]), table


def claims():
    """Return, with its table, a model of counts with dates, many levels, missing cells and a pair."""
    draw = np.random.default_rng(4)
    regions = [f"Région administrative numéro {number:02d} (métropole)" for number in range(24)]
    table = pd.DataFrame(
        {
            "first_day_of_cover": pd.Timestamp("2009-01-01") + pd.to_timedelta(draw.integers(0, 4000, ROWS), unit="D"),
            "region_of_residence": draw.choice(regions, ROWS),
            "vehicle_power_in_horsepower": draw.integers(4, 200, ROWS).astype(float),
            "density_of_inhabitants_per_square_kilometre": draw.lognormal(6.0, 1.5, ROWS).round(),
        }
    )
    where = table["region_of_residence"].map({name: 1.2 * np.sin(index) for index, name in enumerate(regions)})
    rate = 0.8 * np.sin(table["vehicle_power_in_horsepower"] / 30) + where + 0.25 * np.log(table.iloc[:, 3]) - 1.2
    rate = rate + (table["first_day_of_cover"] - pd.Timestamp("2014-01-01")).dt.days / 2500
    table.loc[::7, "vehicle_power_in_horsepower"] = np.nan
    pairs = [("vehicle_power_in_horsepower", "region_of_residence")]
    model = SNAMRegressor(family="poisson", pairs=pairs, random_state=0, verbose=False)
    return model.fit(table, draw.poisson(np.exp(rate))), table


def write_reports(folder):
    """Write a report of each model with three of its rows, named after its table; return the folder."""
    for name, made in TABLES.items():
        model, table = made()
        explanation = model.explain()
        if name == "census":
            chances, draw = model.predict_proba(table)[:, 1], np.random.default_rng(5)
            shown = class_performance(chances, draw.random(ROWS) < chances, model.classes_[1])
            explanation = replace(explanation, card=explanation.card | {"performance": shown})
        if name == "claims":
            shown = number_performance(model.predict(table), model.predict(table) + np.sin(np.arange(ROWS)))
            explanation = replace(explanation, card=explanation.card | {"performance": shown})
        explanation.report(folder / f"{name}.html", model.explain_local(table.head(3)))
    return folder


TABLES = {made.__name__: made for made in (houses, census, patients, flowers, claims)}
