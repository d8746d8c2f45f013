"""What `Views` accepts: the data and labels of every view, held against each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from spectrem._arrays import Ints
from spectrem._validate import as_integers
from spectrem.constraints import check_columns, check_values
from spectrem.data.frames import as_frame
from spectrem.estimators.table_input import row_columns
from spectrem.estimators.views.kinds import Kind, Seen, kind_of
from spectrem.exceptions import InvalidInputError, quoted
from spectrem.models.loglinear import Member


class NewData(NamedTuple):
    """What views see of the same instances.

    Attributes
    ----------
    members : dict of view -> Member
    n_instances : int
    columns : dict of name -> ndarray of shape (n_instances,)
        For constraints, beside those of the members.
    """

    members: dict[str, Member]
    n_instances: int
    columns: dict[str, NDArray]


class TrainingData(NamedTuple):
    """What views see, with labels.

    Attributes
    ----------
    seen : dict of view -> Seen
    estimators : dict of view -> estimator
        To be fitted.
    n_instances, columns
        As of `NewData`.
    """

    seen: dict[str, Seen]
    estimators: dict[str, Any]
    n_instances: int
    columns: dict[str, NDArray]


def kinds_of(settings: Any) -> dict[str, Kind]:
    """The kind of every view.

    Raises
    ------
    InvalidInputError
        If they cannot be views together.
    """
    kinds = {name: kind_of(name, estimator) for name, estimator in settings.views}
    if settings.agreement == "full" and len({kind.chain for kind in kinds.values()}) > 1:
        listed = ", ".join(kind.label_column(name) for name, kind in kinds.items())
        raise InvalidInputError(
            f'agreement must not be "full" between classifiers and taggers, got both; tie them by constraints over '
            f"{listed}"
        )
    return kinds


def read_training(settings: Any, X: Any, y: Any, columns: Any, owners: Mapping[str, ArrayLike] | None) -> TrainingData:
    """Read what `Views.fit` takes.

    Raises
    ------
    InvalidInputError
        If something breaks its rule, or views do not fit each other.
    """
    kinds, full = kinds_of(settings), settings.agreement == "full"
    parts, labels = _split(settings, X), _targets(settings, y)
    estimators: dict[str, Any] = {name: clone(estimator) for name, estimator in settings.views}
    seen: dict[str, Seen] = {}
    for name, kind in kinds.items():
        mine = columns if full and not seen else None
        constraints = settings.constraints if full else ()
        seen[name] = kind.read(estimators[name], parts[name], labels.get(name), mine, constraints)
    members, n = _joined(settings, {name: own.member for name, own in seen.items()}, owners)
    seen = {name: own._replace(member=members[name]) for name, own in seen.items()}
    inside = {} if full else row_columns((columns,), n, "Views")
    _check_constraints(settings, kinds, seen, inside)
    return TrainingData(seen, estimators, n, inside)


def read_more(settings: Any, X: Any, columns: Any, owners: Mapping[str, ArrayLike] | None) -> NewData:
    """Read what `Views.predict` takes; see `read_training`."""
    kinds, full, parts = kinds_of(settings), settings.agreement == "full", _split(settings, X)
    found: dict[str, Member] = {}
    for name, kind in kinds.items():
        mine = columns if full and not found else None
        constraints = settings.constraints if full else ()
        found[name] = kind.read_more(settings.views_[name], parts[name], mine, constraints)
    members, n = _joined(settings, found, owners)
    return NewData(members, n, {} if full else row_columns((columns,), n, "Views"))


def _split(settings: Any, X: Any) -> dict[str, Any]:
    """What every view sees."""
    names, groups = [name for name, _ in settings.views], settings.feature_groups
    given: Any = X if groups is None or isinstance(X, Mapping) else groups
    if not isinstance(given, Mapping) or set(given) != set(names):
        got = ", ".join(map(str, given)) if isinstance(given, Mapping) else quoted(given)
        said = "X must map" if given is X else "feature_groups must map"
        raise InvalidInputError(
            f"{said} every view, {', '.join(names)}, to what it sees, got {got}; of one matrix, feature_groups says "
            "which columns a view sees"
        )
    return {name: X[name] if given is X else _some_columns(X, given[name], name) for name in names}


def _some_columns(X: Any, listed: Any, view: str) -> Any:
    """Columns of a matrix by number, or of a frame by name."""
    frame = as_frame(X, "X")
    known: list[Any] = frame.columns if frame is not None else list(range(X.shape[1]))
    wanted = np.asarray(listed).tolist()
    unknown = set(wanted) - set(known)
    if unknown:
        raise InvalidInputError(
            f"feature_groups[{view!r}] must list columns of X, got {sorted(unknown, key=repr)[0]!r}, and X has "
            f"{', '.join(map(repr, known[:5]))}, ...; give numbers of columns, or names of a frame"
        )
    if frame is not None:
        return frame[:, [known.index(name) for name in wanted]].to_native()
    given: Any = X
    table = given.tocsc() if sp.issparse(X) else np.asarray(X)
    return table[:, wanted]


def _targets(settings: Any, y: Any) -> dict[str, Any]:
    """What is known of the labels of every view."""
    names = [name for name, _ in settings.views]
    if not isinstance(y, Mapping):
        return dict.fromkeys(names, y)
    unknown = [name for name in y if name not in names]
    if settings.agreement == "full" or unknown:
        raise InvalidInputError(
            "y must be the labels that all views share in full agreement, and otherwise may map views "
            f"({', '.join(names)}) to theirs, got {quoted(unknown[0]) if unknown else 'a mapping'}; correct it"
        )
    return dict(y)


def _joined(
    settings: Any, members: Mapping[str, Member], owners: Mapping[str, ArrayLike] | None
) -> tuple[dict[str, Member], int]:
    """Members with their owners, and the number of instances."""
    owned: dict[str, Ints] = {name: as_integers(own, f"owners[{name!r}]") for name, own in (owners or {}).items()}
    strange = [name for name in owned if name not in members or settings.agreement == "full"]
    if strange:
        raise InvalidInputError(
            f"owners must be of views ({', '.join(members)}) that do not agree fully, got {strange[0]!r}; leave it out"
        )
    sizes = {name: member.n_instances for name, member in members.items() if name not in owned}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{n} of {name!r}" for name, n in sizes.items())
        raise InvalidInputError(
            f"X must have the same rows or sentences in every view, got {listed}; leave out those that a view lacks, "
            "or say by owners what they are parts of"
        )
    largest = max((int(own.max(initial=-1)) for own in owned.values()), default=-1)
    found = {name: replace(member, owners=owned.get(name)) for name, member in members.items()}
    taggers = [(name, member) for name, member in found.items() if member.lengths is not None]
    if not isinstance(settings.agreement, list | tuple) and len(taggers) == len(members) and not owned:
        (first, one), *others = taggers
        for name, member in others:
            if not np.array_equal(member.sizes, one.sizes):
                bad = int(np.argmax(member.sizes != one.sizes))
                raise InvalidInputError(
                    f"X must have the same tokens in every view, got {member.sizes[bad]} of {name!r} and "
                    f"{one.sizes[bad]} of {first!r} in sentence {bad}; give the same sentences"
                )
    return found, next(iter(sizes.values()), largest + 1)


def _check_constraints(
    settings: Any, kinds: Mapping[str, Kind], seen: Mapping[str, Seen], inside: Mapping[str, NDArray]
) -> None:
    """Hold constraints, and views that agree fully, against the labels there are."""
    if settings.agreement != "full":
        listed = [] if isinstance(settings.agreement, Mapping) else settings.agreement
        for name, kind in kinds.items():
            check_values([settings.constraints, listed], kind.label_column(name), list(seen[name].names))
        check_values([settings.constraints, listed], "view", list(kinds))
        check_columns([settings.constraints, listed], inside)
        return
    (first, own), *others = seen.items()
    for name, other in others:
        if list(other.names) != list(own.names):
            raise InvalidInputError(
                f"views must have the same labels in full agreement, got {list(own.names)!r:.100} of {first!r} and "
                f"{list(other.names)!r:.100} of {name!r}; give them the same classes or tags, or map labels to groups "
                "by agreement"
            )
    for label in ("tag", "label", "previous"):
        check_values(settings.constraints, label, list(own.names))
    check_columns(settings.constraints, own.member.columns)
