"""The shared part of commands that predict: loading a model, wording of errors, and lines of probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from spectrem.cli.declare import Given, Settings
from spectrem.cli.rules import check_rules, needs
from spectrem.exceptions import InvalidInputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def load_model(path: str, classes: Sequence[Any], settings: Settings, given: Given) -> Any:
    """A saved estimator of one of some classes, with the parameters that were given for prediction.

    Raises
    ------
    InvalidInputError
        If the file is missing or damaged, or holds something else; naming an option that changes nothing because the
        model has no constraints, or does not meet them.
    """
    from spectrem.estimators.storage import saved_kind

    model = {one.__name__: one for one in classes}.get(saved_kind(path), classes[0]).load(path)
    model.set_params(**settings)
    if settings.get("project_at_predict") and not model.constraints:
        raise InvalidInputError(
            f"--project-at-predict: {path} holds no constraints to meet; train it with --constraint, or drop this"
        )
    if not (model.project_at_predict and model.constraints):
        check_rules([needs("--infeasible", "--project-at-predict")], given)
    return model


def posterior_lines(
    sentences: Iterable[Sequence[str]],
    tables: Iterable[NDArray[np.float64]],
    name: Callable[[int, int], object],
    least: float,
) -> Iterator[str]:
    r"""A line per word of the word and its choices, likeliest first, and a blank one after every sentence.

    Parameters
    ----------
    sentences : iterable of sequence of str
    tables : iterable of ndarray of shape (n_words, n_choices)
    name : function of word and choice
        The name of a choice of a word, both by number.
    least : float
        Choices below this probability are left out.

    Yields
    ------
    str
        Lines with their ends.

    Examples
    --------
    >>> import numpy as np
    >>> list(posterior_lines([["run"]], [np.array([[0.25, 0.0, 0.75]])], lambda word, k: ["NN", "DT", "VB"][k], 0.01))
    ['run\tVB:0.75\tNN:0.25\n', '\n']
    """
    for words, table in zip(sentences, tables, strict=True):
        for number, (word, row) in enumerate(zip(words, table, strict=True)):
            likely = [k for k in (-row).argsort(kind="stable").tolist() if row[k] >= least]
            yield "\t".join([word, *(f"{name(number, k)}:{row[k]:.4g}" for k in likely)]) + "\n"
        yield "\n"
