"""The MLflow flavour, in an environment with MLflow: `make mlflow-tests` runs it; the suite does not collect it."""

import warnings

import mlflow
import numpy as np
import pandas as pd
import pytest

from sparsenam import SNAMClassifier, SNAMRegressor, SNAMSurvival, survival_target
from sparsenam.export import ModelFileError
from sparsenam.interop import load_model, log_model, save_model

pytestmark = pytest.mark.filterwarnings("default")  # MLflow's libraries warn on import


def table(rows=200):
    generator = np.random.default_rng(0)
    X = pd.DataFrame({"age": generator.uniform(20, 80, rows), "city": generator.choice(["a", "b", "c"], rows)})
    X.loc[::9, "age"] = np.nan
    return X, np.sin(X["age"].fillna(50) / 9) + (X["city"] == "a") + 0.1 * generator.standard_normal(rows)


@pytest.fixture(scope="module")
def models():
    X, y = table()
    generator = np.random.default_rng(1)
    times = generator.exponential(np.exp(-y.to_numpy()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "regression": SNAMRegressor(random_state=0).fit(X, y),
            "classes": SNAMClassifier(random_state=0).fit(X, np.where(y > y.mean(), "yes", "no")),
            "survival": SNAMSurvival(random_state=0).fit(X, survival_target(times < 2, times)),
        }


@pytest.mark.parametrize("name", ["regression", "classes", "survival"])
def test_a_saved_model_predicts_the_same_to_the_bit_as_pyfunc_and_as_estimator(models, name, tmp_path):
    model, (X, _) = models[name], table()
    save_model(model, tmp_path / "model", X=X)
    served = mlflow.pyfunc.load_model(str(tmp_path / "model")).predict(X)
    assert list(served.columns) == ["prediction"]
    assert np.array_equal(served["prediction"], model.predict(X))
    again = load_model(str(tmp_path / "model"))
    assert type(again) is type(model)
    assert np.array_equal(again.predict(X), model.predict(X))
    assert not list((tmp_path / "model").rglob("*.pkl"))


def test_probabilities_are_a_parameter_of_predict(models, tmp_path):
    model, (X, _) = models["classes"], table()
    save_model(model, tmp_path / "model", X=X)
    served = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    found = served.predict(X, params={"probabilities": True})
    assert list(found.columns) == ["prediction", "probability of no", "probability of yes"]
    assert np.array_equal(found.to_numpy()[:, 1:].astype(float), model.predict_proba(X))


def test_the_signature_and_the_example_are_those_of_the_table(models, tmp_path):
    X, _ = table()
    save_model(models["classes"], tmp_path / "model", X=X)
    info = mlflow.models.get_model_info(str(tmp_path / "model"))
    assert info.signature.inputs.input_names() == ["age", "city"]
    assert [str(kind) for kind in info.signature.inputs.input_types()] == ["DataType.double", "DataType.string"]
    assert info.signature.outputs.input_names() == ["prediction"]
    assert [parameter.name for parameter in info.signature.params] == ["probabilities"]
    assert set(info.flavors) == {"python_function", "sparsenam"}
    example = mlflow.pyfunc.load_model(str(tmp_path / "model")).input_example
    assert len(example) == 5
    requirements = (tmp_path / "model" / "requirements.txt").read_text()
    assert requirements.splitlines()[-1].startswith("sparsenam[mlflow]==")


def test_a_table_without_a_column_of_the_model_is_refused_by_the_signature(models, tmp_path):
    X, _ = table()
    save_model(models["regression"], tmp_path / "model", X=X)
    with pytest.raises(mlflow.exceptions.MlflowException, match="city"):
        mlflow.pyfunc.load_model(str(tmp_path / "model")).predict(X[["age"]])


def test_a_logged_model_is_loaded_by_its_address(models, tmp_path):
    model, (X, _) = models["regression"], table()
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'runs.db'}")
    mlflow.set_experiment(experiment_id=mlflow.create_experiment("checks", (tmp_path / "runs").as_uri()))
    with mlflow.start_run():
        info = log_model(model, "snam", X=X, metadata={"by": "a check"})
    assert np.array_equal(load_model(info.model_uri).predict(X), model.predict(X))
    served = mlflow.pyfunc.load_model(info.model_uri).predict(X)
    assert np.array_equal(served["prediction"], model.predict(X))
    assert info.metadata == {"by": "a check"}


def test_a_model_of_another_flavour_is_refused_in_one_sentence(tmp_path):
    class Other(mlflow.pyfunc.PythonModel):
        def predict(self, context, model_input: list[str], params=None):
            return model_input

    mlflow.pyfunc.save_model(str(tmp_path / "model"), python_model=Other(), pip_requirements=[])
    with pytest.raises(ModelFileError, match="expected the flavour 'sparsenam', got the flavours"):
        load_model(str(tmp_path / "model"))
