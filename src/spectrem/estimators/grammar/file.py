"""A fitted DependencyModel as a file."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from spectrem.estimators.grammar.parameters import TABLES, check_settings
from spectrem.estimators.storage import Codec, check_rows, check_shapes
from spectrem.estimators.tagging.text import check_tags
from spectrem.models.grammar import GrammarParameters, ValenceModel


def _write(model: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    return {"tags": list(model.tags_)}, {name: getattr(model.params_, name) for name in TABLES}


def _read(model: Any, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    tags = check_tags(values["tags"])
    shapes = ValenceModel(len(tags), model.adjacency).shapes
    check_shapes(arrays, dict(zip(TABLES, shapes, strict=True)), probabilities=TABLES)
    for name in TABLES:
        check_rows(name, arrays[name])
    model.set_params(tags=list(tags))
    model._take(tags, GrammarParameters(arrays["root"], arrays["choose"], arrays["stop"]), model.gamma_)


CODEC = Codec(
    kind="DependencyModel",
    layout=1,
    members={"root": ("f8", 1), "choose": ("f8", 4), "stop": ("f8", 4)},
    write=_write,
    read=_read,
    numbers=("gamma", "log_likelihood"),
    apart=("tags",),
    check=check_settings,
)
