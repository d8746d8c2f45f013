"""Fitted Views as a file of JSON and arrays, which holds the files of all views."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray
from sklearn.base import clone

from spectrem.estimators.conventions import as_fitted
from spectrem.estimators.declare import check_parameters
from spectrem.estimators.storage import Codec, read_constraints, write_texts
from spectrem.estimators.views.kinds import KINDS
from spectrem.exceptions import InvalidInputError

_MOST_VIEWS = 64
_CLASSES = {kind.estimator._codec.kind: kind.estimator for kind in KINDS}


def _write(views: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    inside, arrays = list[dict[str, Any]](), dict[str, NDArray[Any]]()
    for number, (name, view) in enumerate(views.views_.items()):
        settings, members = view._codec.content(view)
        inside.append({"name": name, "kind": view._codec.kind, "settings": settings})
        arrays |= {f"{number}_{key}": array for key, array in members.items()}
    return {"views": inside, "agreement": _write_agreement(as_fitted(views))}, arrays


def _read(views: Any, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    views.views_ = {}
    for number, saved in enumerate(values["views"]):
        start = f"{number}_"
        members = {key.removeprefix(start): array for key, array in arrays.items() if key.startswith(start)}
        view = views.views_[saved["name"]] = _CLASSES[saved["kind"]]()
        view._codec.restore(view, saved["settings"], members)
    views.views = [(name, clone(view)) for name, view in views.views_.items()]
    views.agreement = _read_agreement(values["agreement"])
    check_parameters(views)
    views._whole()  # views that do not fit each other are damage, too


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


CODEC = Codec(
    kind="Views",
    layout=1,
    members={
        f"{number}_{name}": shape
        for number in range(_MOST_VIEWS)
        for cls in _CLASSES.values()
        for name, shape in cls._codec.members.items()
    },
    write=_write,
    read=_read,
    numbers=("gamma", "bhattacharyya"),
    apart=("views", "agreement"),
    check=lambda views: None,  # when its views are read
    blank=lambda cls: cls([]),
)
