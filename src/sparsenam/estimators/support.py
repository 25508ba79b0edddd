"""Questions about a fitted model's choice of columns: its stability, and other models as good."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from sparsenam.context import Clock, Context, ProgressBar, Streams
from sparsenam.errors import InputError, check_number, check_whole, describe
from sparsenam.estimators.editing import GivenRows
from sparsenam.explain.alternatives import Alternatives, alternatives_of
from sparsenam.explain.stability import Stability, stability_of
from sparsenam.explain.summary import kept_columns
from sparsenam.families import Family
from sparsenam.fitting.pipeline import Plan, Pose
from sparsenam.fitting.strategies import Strategy
from sparsenam.fitting.support import Question, keep_in_halves, search_alternatives
from sparsenam.model import AdditiveModel
from sparsenam.penalties import Penalty
from sparsenam.selection.task import twins_of
from sparsenam.tables import TableEncoder
from sparsenam.threads import one_thread

Vector = NDArray[np.float64]


class ChoiceMixin:
    """What can be asked about a choice of columns, on the rows of the fit or rows like them."""

    model_: AdditiveModel
    encoder_: TableEncoder
    alpha_: float
    substitutes_: dict[str, dict[str, float]]
    stability_: Stability | None

    def stability(
        self,
        X: ArrayLike,
        y: ArrayLike,
        n_pairs: int = 25,
        sample_weight: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Stability:
        """Return how often half of the rows would choose each column, and remember it as ``stability_``.

        The rows are cut into two random halves, ``n_pairs`` times, and each half is asked which columns it keeps at the
        model's alpha. `explain`, the report and the model file have the frequencies from then on. Predictions stay as
        they are. A column that held-out rows took back, and pairs of columns, are not chosen anew.

        Parameters
        ----------
        X : table of shape (rows, features)
            The rows of the fit, or rows like them.
        y : array-like of shape (rows,) or (rows, outputs)
            Their target, as for ``fit``.
        n_pairs : int, default 25
            Pairs of complementary halves.
        sample_weight, exposure : array-like of shape (rows,), optional
            As for ``fit``.
        groups : array-like of shape (rows,), optional
            Groups of rows that depend on each other, such as those of one patient: no half tears one apart.
        """
        check_whole("n_pairs", n_pairs)
        question = self._question("stability", X, y, sample_weight, exposure, groups)
        with self._asking() as context:
            found = keep_in_halves(question, self.alpha_, n_pairs, context)
        names = self.encoder_.names
        self.stability_ = stability_of(
            found.kept,
            found.candidates,
            names,
            kept=[names[column] for column in kept_columns(self.encoder_, self.model_)],
            always_kept=[names[column] for column in np.flatnonzero(found.free)],
            substitutes=self.substitutes_,
            alpha=self.alpha_,
            asked_pairs=n_pairs,
        )
        return self.stability_

    def alternatives(
        self,
        X: ArrayLike,
        y: ArrayLike,
        tolerance: float | Literal["auto"] = "auto",
        most: int = 20,
        sample_weight: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Alternatives:
        """Return other sets of columns that predict about as well as those of the model.

        Columns are dropped, swapped for others and added, and each set is judged as the choice was: by smooth fits on
        the folds of ``cv``, and the losses of the rows held out. Pairs of columns take no part.

        Parameters
        ----------
        X : table of shape (rows, features)
            The rows of the fit, or rows like them.
        y : array-like of shape (rows,) or (rows, outputs)
            Their target, as for ``fit``.
        tolerance : float or "auto", default "auto"
            How much of what the model explains in rows held out another may lose. "auto" is what is not
            certain, two standard errors, and at most 3 %.
        most : int, default 20
            Most models to return.
        sample_weight, exposure, groups : array-like of shape (rows,), optional
            As for ``fit``.
        """
        check_whole("most", most)
        allowed: float | None = None
        if isinstance(tolerance, str):
            if tolerance != "auto":
                raise InputError(describe("tolerance", "a share or 'auto'", repr(tolerance), "choose one"))
        else:
            check_number("tolerance", tolerance, 0.0)
            allowed = float(tolerance)
        question = self._question("alternatives", X, y, sample_weight, exposure, groups)
        with self._asking() as context:
            found, task = search_alternatives(question, self.model_, allowed, most, context)
        twins = twins_of(task.prepared, self.model_, self.encoder_)
        return alternatives_of(found, task.column_names, twins, allowed)

    def _question(
        self,
        where: str,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        exposure: ArrayLike | None,
        groups: ArrayLike | None,
    ) -> Question:
        """Return rows as the fit read its rows, with the plan of its settings; raise where nothing was chosen."""
        check_is_fitted(cast(Any, self))
        strategy, penalty = self._resolve()
        if not strategy.chooses:
            got = f"a {type(self).__name__} whose network was trained on all columns"
            raise InputError(describe(where, "columns chosen by the convex problem", got, "fit with alpha='auto'"))
        rows, units = self._given_rows(X, y, sample_weight, None), None
        if exposure is not None:
            self._with_exposure(rows, exposure)  # raises where there are no rates
            units = np.asarray(exposure, dtype=np.float64)
        family, encoder = self.model_.family, self.encoder_
        plan = self._plan(self._pose(strategy, family), strategy, penalty)
        weights = self._row_weights(rows.target, rows.weights)
        answer = rows.target.argmax(axis=1) if family.couples_outputs else None
        return Question(encoder, plan.sample(encoder, rows.terms, rows.target, weights, units), plan, groups, answer)

    @contextmanager
    def _asking(self) -> Generator[Context]:
        """Give a context with the time, the threads and the progress bar that the parameters ask for."""
        parameters = self._settings()
        seconds = parameters.get("max_seconds")
        if seconds is not None:
            check_number("max_seconds", seconds, 0.0, open_below=True)
        streams = Streams.from_random_state(parameters.get("random_state"))
        context = Context(streams, Clock(seconds), ProgressBar(parameters.get("verbose")))
        try:
            with one_thread():
                yield context
        finally:
            context.progress.close()

    def _row_weights(self, target: Vector, weights: Vector) -> Vector:
        """Return the weights (rows,) of rows with a target (rows, outputs), with those of their classes."""
        return weights

    @abstractmethod
    def _pose(self, strategy: Strategy, family: Family) -> Pose: ...
    @abstractmethod
    def _resolve(self) -> tuple[Strategy, Penalty]: ...
    @abstractmethod
    def _plan(self, pose: Pose, strategy: Strategy, penalty: Penalty) -> Plan: ...
    @abstractmethod
    def _settings(self) -> dict[str, Any]: ...
    @abstractmethod
    def _given_rows(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, exposure: ArrayLike | None
    ) -> GivenRows: ...
    @abstractmethod
    def _with_exposure(self, rows: GivenRows, exposure: ArrayLike | None) -> GivenRows: ...
