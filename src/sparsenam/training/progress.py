"""A progress bar for fits that last longer than two seconds."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from tqdm import tqdm

from sparsenam.training.state import Epoch

PATIENCE = 2.0  # seconds before the bar appears


def shown(epochs: Iterable[Epoch], last: int, verbose: bool | None) -> Iterator[Epoch]:
    """Pass the epochs on and draw them; ``verbose=None`` draws only on a terminal."""
    hidden = (not verbose) if verbose is not None else None
    with tqdm(
        total=last, desc="fit", unit="epoch", delay=PATIENCE, disable=hidden, leave=False, file=sys.stderr
    ) as bar:
        for epoch in epochs:
            bar.update(epoch.number - bar.n)
            bar.set_postfix_str(f"loss {epoch.loss:.4g}, {epoch.n_active} features", refresh=False)
            yield epoch
