"""A fitted SelfTrainer as a file: that of skops, since the classifier inside may be any of scikit-learn's kind."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from spectrem._damage import DAMAGE
from spectrem._outputs import open_bytes
from spectrem.estimators.declare import check_parameters
from spectrem.estimators.shared_parameters import NOT_SAVED
from spectrem.estimators.storage import damage_named, read_parameters, settings_of, take_saved_course
from spectrem.exceptions import InvalidInputError

T = TypeVar("T")

_KIND, _LAYOUT = "SelfTrainer", 1
_LEARNED = ("estimator_", "classes_", "gamma_", "n_features_in_", "feature_names_in_")


def save(trainer: Any, path: str | os.PathLike[str]) -> None:
    """Write the classifier, and the parameters that JSON can hold."""
    data = _skops().dumps(_content(trainer))
    with open_bytes(path) as file:
        file.write(data)


def _content(trainer: Any) -> dict[str, Any]:
    return {
        "kind": _KIND,
        "version": _LAYOUT,
        **settings_of(trainer, (*NOT_SAVED, "estimator")),
        "estimator": trainer.estimator,
        "learned": {name: value for name, value in vars(trainer).items() if name in _LEARNED},
    }


def load(cls: type[T], path: str | os.PathLike[str], trusted: Sequence[str]) -> T:
    """A new trainer of what `save` wrote.

    Raises
    ------
    InvalidInputError
        If the file is missing, damaged or of another kind, or holds objects of types that are not trusted.
    """
    skops = _skops()
    try:
        data = Path(path).read_bytes()
        unknown = sorted(set(skops.get_untrusted_types(data=data)) - set(trusted))
    except FileNotFoundError:
        raise InvalidInputError(f"{path}: no such model file; train one and save it first") from None
    except DAMAGE:
        raise InvalidInputError(f"{path}: not a saved {_KIND}, or damaged; save the model again") from None
    if unknown:
        raise InvalidInputError(
            f"{path}: holds objects of types that may do harm, {', '.join(unknown)}; if you trust the file, load it "
            f"with trusted={unknown}"
        )
    with damage_named(path, _KIND):
        content = skops.loads(data, trusted=list(trusted))
        if (content["kind"], content["version"]) != (_KIND, _LAYOUT):
            raise ValueError(f"{content['kind']} of layout {content['version']}, expected {_KIND} of {_LAYOUT}")
        trainer: Any = cls(content["estimator"], **read_parameters(content))  # type: ignore[call-arg]
        check_parameters(trainer)
        take_saved_course(trainer, content)
        learned = content["learned"]
        vars(trainer).update({name: learned[name] for name in _LEARNED if name in learned})
        trainer.estimator_.predict_proba, trainer.classes_.shape, trainer.gamma_  # noqa: B018
    return trainer


def _skops() -> Any:
    try:
        import skops.io
    except ImportError:
        raise InvalidInputError(
            "saving a classifier needs skops, which is not installed; pip install 'spectrem[skops]'"
        ) from None
    return skops.io
