"""Fitted Views as a file of JSON and arrays, which holds the files of all views."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray
from sklearn.base import clone

from spectrem.estimators.conventions import as_fitted
from spectrem.estimators.declare import check_parameters
from spectrem.estimators.saved_constraints import read_constraints, write_texts
from spectrem.estimators.shared_parameters import NOT_SAVED
from spectrem.estimators.storage import damage_named, load_arrays, read_parameters, settings_of, take_saved_course
from spectrem.estimators.views.input import kinds_of
from spectrem.estimators.views.kinds import KINDS
from spectrem.exceptions import InvalidInputError
from spectrem.learning.schedule import check_gamma

KIND, LAYOUT = "Views", 1
_MOST_VIEWS = 64
_MEMBERS = {
    f"{number}_{name}": shape for number in range(_MOST_VIEWS) for kind in KINDS for name, shape in kind.arrays.items()
}


def content_of(views: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Settings and arrays of a file: those of all views, their agreement, and the course of training."""
    fitted, inside = as_fitted(views), []
    kinds = kinds_of(fitted)
    arrays: dict[str, NDArray[Any]] = {}
    for number, (name, kind) in enumerate(kinds.items()):
        settings, own = kind.content(views.views_[name])
        inside.append({"name": name, "kind": kind.estimator.__name__, "settings": settings})
        arrays |= {f"{number}_{key}": array for key, array in own.items()}
    settings = {
        **settings_of(views, ("views", "agreement", *NOT_SAVED)),
        "views": inside,
        "agreement": _write_agreement(fitted),
        "gamma": views.gamma_,
        "bhattacharyya": views.bhattacharyya_,
    }
    return settings, arrays


def load(found: Any, path: str | os.PathLike[str]) -> Any:
    """Fill new Views with what `content_of` gave, and return them.

    Raises
    ------
    InvalidInputError
        If the file is missing or damaged, or not that of views.
    """
    settings, arrays = load_arrays(path, KIND, LAYOUT, _MEMBERS)
    with damage_named(path, KIND):
        kinds = {kind.estimator.__name__: kind for kind in KINDS}
        fitted: dict[str, Any] = {}
        for number, own in enumerate(settings["views"]):
            start = f"{number}_"
            mine = {key.removeprefix(start): array for key, array in arrays.items() if key.startswith(start)}
            kind = kinds[own["kind"]]
            fitted[own["name"]] = kind.estimator()
            kind.restore(fitted[own["name"]], own["settings"], mine)
        found.views_, found.views = fitted, [(name, clone(own)) for name, own in fitted.items()]
        found.agreement = _read_agreement(settings["agreement"])
        found.set_params(**read_parameters(settings))
        check_parameters(found)
        gamma = float(settings["gamma"])
        check_gamma(gamma)
        take_saved_course(found, settings)
        found.gamma_, found.bhattacharyya_ = gamma, float(settings["bhattacharyya"])
        found.theta_  # noqa: B018 - views that do not fit each other are damage, too
    return found


def _write_agreement(views: Any) -> Any:
    """What the views agree on, as JSON can hold it."""
    agreement = views.agreement
    if isinstance(agreement, Mapping):
        return {"groups": [[view, list(own.items())] for view, own in agreement.items()]}
    if agreement == "full":
        return agreement
    left_out: list[str] = []
    written = write_texts(agreement, left_out)
    if left_out:
        raise InvalidInputError(
            f"agreement must be texts, or made with E or shortcuts, to be saved, got {', '.join(left_out)}; keep the "
            "Views in memory"
        )
    return {"ties": written}


def _read_agreement(written: Any) -> Any:
    """The inverse of `_write_agreement`."""
    if not isinstance(written, dict):
        return written
    if "groups" in written:
        return {view: dict(map(tuple, own)) for view, own in written["groups"]}
    return read_constraints(written["ties"])
