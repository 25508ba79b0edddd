"""Fits of tables that are not in memory are those of the same rows in memory, in few passes, also after Ctrl-C."""

import numpy as np
import pyarrow as pa
import pytest

import sparsenam
from fit_cases import (
    CASES,
    INPUTS,
    count_passes,
    fitted,
    mixed_table,
    of_case,
    same_bits,
    small_blocks,
    truth,
    write_parts,
)
from sparsenam import SNAMClassifier, SNAMRegressor, SNAMSurvival
from sparsenam.context import ResumeFile, Streams
from sparsenam.errors import InputError
from sparsenam.estimators import fit_with
from sparsenam.smooth import all_rows, engine
from sparsenam.tables import blocks

ROWS = 3000


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    small_blocks(monkeypatch)


@pytest.fixture(scope="module")
def table():
    return mixed_table(ROWS)


@pytest.fixture(scope="module")
def parts(table, tmp_path_factory):
    """Folders of Parquet files by case."""
    return {case: write_parts(of_case(case, table), tmp_path_factory.mktemp(case) / "parts") for case in CASES}


@pytest.mark.parametrize("case", CASES)
def test_parquet_files_give_the_bits_of_the_same_rows_in_memory(case, table, parts, tmp_path):
    kind, usual, target, more = CASES[case]
    X = pa.Table.from_pandas(table[INPUTS], preserve_index=False)
    given = {name: table[column].to_numpy() for name, column in more.items()}
    memory = kind(random_state=0, n_alphas=6, **usual).fit(X, table[target].to_numpy(), **given)
    files = fitted(case, parts[case])
    assert same_bits(files, memory)
    assert {"a", "b", "colour"} <= set(files.get_feature_names_out())
    files.save(tmp_path / "model.snam")
    loaded = sparsenam.load(tmp_path / "model.snam")
    assert np.array_equal(loaded.predict(table[INPUTS]), files.predict(table[INPUTS]))


def test_all_rows_bring_a_fit_nearer_to_the_truth_than_the_sample_alone(monkeypatch):
    table = mixed_table(20_000, seed=3)
    X, y = table[INPUTS], table["y"].to_numpy()
    large = SNAMRegressor(random_state=0, n_alphas=6).fit(X, y)
    drawn = blocks.sample_of(blocks.MemoryBlocks(X, y), Streams(0).integer("sample of rows"))
    assert len(drawn) == blocks.SAMPLE_ROWS
    small = SNAMRegressor(random_state=0, n_alphas=6).fit(drawn.X, drawn.y)
    errors = [np.mean((model.predict(X) - truth(table)) ** 2) for model in (large, small)]
    assert errors[0] < 0.5 * errors[1]


def always_doubled(counts, most, share, columns):
    """Twice the knots for every term, as where all rows see what the sample could not."""
    return np.minimum(2 * counts, most)


def test_squared_loss_reads_every_row_four_times_at_most(parts, monkeypatch):
    made = count_passes(monkeypatch)
    fitted("gaussian", parts["gaussian"])
    monkeypatch.setattr(all_rows, "doubled", always_doubled)
    fitted("gaussian", parts["gaussian"])
    usual, most = made
    assert usual.passes <= most.passes == 4
    assert (usual.rows, most.rows) == (usual.passes * ROWS, 4 * ROWS)


@pytest.mark.parametrize(("case", "before"), [("gaussian", 2), ("poisson", 4), ("poisson", 9)])
def test_a_fit_that_is_stopped_between_passes_goes_on_to_the_bits_of_an_unbroken_one(
    case, before, parts, tmp_path, monkeypatch
):
    kind, usual, target, more = CASES[case]
    monkeypatch.setattr(all_rows, "doubled", always_doubled)
    made = count_passes(monkeypatch)
    whole = fitted(case, parts[case])
    unbroken = made.pop().passes
    assert unbroken > before
    file = ResumeFile(tmp_path / "stage.safetensors")
    with monkeypatch.context() as patch:
        count_passes(patch, before)
        with pytest.raises(KeyboardInterrupt):
            fit_with(kind(random_state=0, n_alphas=6, **usual), parts[case], target, resume=file, **more)
    again = ResumeFile(tmp_path / "stage.safetensors")
    model = fit_with(kind(random_state=0, n_alphas=6, **usual), parts[case], target, resume=again, **more)
    assert same_bits(model, whole)
    # the sample is drawn again; of what came after it, at most a step for each set of knots is made again
    assert made[-1].passes <= unbroken - (before - 1) + 3
    assert made[0].passes < unbroken


def test_a_fit_that_took_all_its_steps_is_resumed_to_the_same_bits(parts, tmp_path, monkeypatch):
    """The last step was kept too, and a fit that had it found nothing left to do."""
    kind, usual, target, more = CASES["poisson"]
    monkeypatch.setattr(engine, "NEWTON_STEPS", 2)
    first, again = (
        fit_with(
            kind(random_state=0, n_alphas=6, **usual),
            parts["poisson"],
            target,
            resume=ResumeFile(tmp_path / "stages"),
            **more,
        )
        for _ in range(2)
    )
    assert same_bits(first, again)


def test_what_needs_all_rows_at_once_is_one_sentence(parts, table):
    source = parts["gaussian"]
    for settings, got in (
        ({"refit": False}, "got refit=False"),
        ({"shapes": {"a": "increasing"}}, "shapes"),
        ({"cv": [(np.arange(10), np.arange(10, 20))]}, "folds that are given"),
    ):
        with pytest.raises(
            InputError,
            match=r"a table that is not in memory: expected a fit that reads its rows block by block.*" + got,
        ):
            SNAMRegressor(random_state=0, **settings).fit(source, "y")
    with pytest.raises(InputError, match="got groups"):
        SNAMRegressor(random_state=0).fit(source, "y", groups=np.zeros(ROWS))
    with pytest.raises(InputError, match=r"a table that is not in memory: .* got survival times"):
        SNAMSurvival(random_state=0).fit(source, "y")


def test_pairs_of_the_sample_are_kept_beside_mains_of_all_rows(table, parts):
    pairs = [("a", "b"), ("a", "colour")]
    files = fitted("gaussian", parts["gaussian"], pairs=pairs)
    assert set(map(frozenset, files.interactions_)) == set(map(frozenset, pairs))
    X = pa.Table.from_pandas(table[INPUTS], preserve_index=False)
    memory = SNAMRegressor(random_state=0, n_alphas=6, pairs=pairs)
    assert same_bits(files, memory.fit(X, table["y"].to_numpy(), sample_weight=table["w"].to_numpy()))


def test_wrong_names_and_targets_are_one_sentence(parts, table, tmp_path):
    source = parts["gaussian"]
    for arguments, sentence in (
        ((source, "price"), "expected a column 'price', got none of that name"),
        ((source, table["y"]), "y: expected the name of the target's column"),
        ((source, "y", np.ones(ROWS)), "sample_weight or exposure: expected the name of a column"),
    ):
        with pytest.raises(InputError, match=sentence):
            SNAMRegressor(random_state=0).fit(*arguments)


@pytest.mark.parametrize(
    ("case", "column", "value", "sentence"),
    [
        ("gaussian", "y", np.nan, "y: expected finite numbers, got NaN"),
        ("poisson", "n", -1, "poisson"),
        ("gaussian", "w", -1.0, "sample_weight: expected finite numbers of at least 0"),
        ("poisson", "e", -1.0, "exposure: expected finite numbers of at least 0"),
        ("poisson", "e", 0.0, "exposure: expected y = 0 where it is 0"),
        ("binary", "two", "perhaps", "y: expected the classes of a sample"),
    ],
)
def test_a_bad_cell_outside_the_sample_is_one_sentence(case, column, value, sentence, table, tmp_path):
    part = of_case(case, table).copy()
    seed = Streams(0).integer("sample of rows")
    held = blocks.MemoryBlocks(np.arange(ROWS)[:, None], np.arange(ROWS))
    outside = np.setdiff1d(np.arange(ROWS), blocks.sample_of(held, seed).y)
    row = outside[-1] if case != "poisson" else outside[part["n"].to_numpy()[outside] > 0][-1]
    part.loc[row, column] = value
    with pytest.raises(ValueError, match=sentence):
        fitted(case, write_parts(part, tmp_path / "parts"))


def test_a_class_that_the_sample_lacks_is_fitted_where_the_table_is_in_memory(table):
    labels = table["two"].to_numpy().astype(object)
    drawn = blocks.sample_of(
        blocks.MemoryBlocks(np.arange(ROWS)[:, None], np.arange(ROWS)), Streams(0).integer("sample of rows")
    )
    labels[np.setdiff1d(np.arange(ROWS), drawn.y)[:6]] = "perhaps"
    model = SNAMClassifier(alpha=0.02, random_state=0).fit(table[INPUTS], labels)
    assert model.classes_.tolist() == ["no", "perhaps", "yes"]


def test_a_bad_target_or_weight_of_a_table_in_memory_is_named_by_its_row_in_the_table(table):
    y = table["y"].to_numpy().copy()
    y[-1] = np.nan
    with pytest.raises(InputError, match=f"NaN in row {ROWS - 1}"):
        SNAMRegressor(random_state=0).fit(table[INPUTS], y)
    with pytest.raises(InputError, match=f"sample_weight: expected {ROWS} numbers, got shape"):
        SNAMRegressor(random_state=0).fit(table[INPUTS], table["y"], sample_weight=np.ones(ROWS - 1))
