"""Values of all public classes show themselves in a line or few, whatever they hold."""

import dataclasses
import importlib
import inspect
import pkgutil
from enum import Enum

import numpy as np
import pytest
import scipy.sparse as sp

import spectrem
from spectrem import E, HMMTagger, Lattice, WordAligner, project
from spectrem._reprs import LONGEST, WIDEST, brief, brief_repr
from spectrem.constraints import compile_constraints
from spectrem.data import FileSentences, ParsedSentence, read_pairs, read_sentences

WIDTH = LONGEST + WIDEST  # five lines or six of a terminal


class Vast:
    """A value whose own repr is long."""

    def __repr__(self):
        return "vast " * 1_000


def public_classes():
    """All classes that packages of the library list as public."""
    packages = [
        name
        for _, name, is_package in pkgutil.walk_packages(spectrem.__path__, "spectrem.", onerror=lambda _: None)
        if is_package and not name.startswith("spectrem.torch")  # which may be missing
    ]
    found = {}
    for module in map(importlib.import_module, ["spectrem", "spectrem.datasets", *packages]):
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if inspect.isclass(value) and not issubclass(value, BaseException):
                found[value] = name
    return list(found)


LARGE = (
    (("Floats", "Ints", "Bools", "Reals", "NDArray", "Key"), np.arange(300_000)),
    (("csr_array",), sp.eye_array(1000, format="csr")),
    (("dict", "Mapping"), {f"word {k}": Vast() for k in range(10_000)}),
    (("list", "Sequence", "tuple"), [Vast()] * 10_000),
    (("str", "Distance", "CovarianceType"), "a" * 60),
    (("float", "int", "bool"), 1),
)


def large(annotation):
    """A value of about that type, large where the type allows it."""
    for names, value in LARGE:
        if any(name in annotation for name in names):
            return value
    return Vast()


SOURCES = "spectrem.constraints.constraint", "spectrem.constraints.columns"


def is_source(cls):
    """Whether a class shows itself as the text that makes it, which a constraint or an estimator does."""
    return hasattr(cls, "set_params") or cls.__module__.removeprefix("spectrem.constraints.") in (
        "constraint",
        "columns",
    )


@pytest.mark.parametrize("cls", [cls for cls in public_classes() if not is_source(cls)], ids=lambda cls: cls.__name__)
def test_public_classes_are_shown_briefly(cls):
    if dataclasses.is_dataclass(cls):
        value = object.__new__(cls)
        for field in dataclasses.fields(cls):
            object.__setattr__(value, field.name, large(str(field.type)))
    elif issubclass(cls, tuple):
        value = tuple.__new__(cls, [large(str(cls.__annotations__[name])) for name in cls._fields])
    else:
        assert cls.__repr__ in (object.__repr__, brief_repr) or issubclass(cls, Enum | FileSentences)
        return
    shown = repr(value)
    assert len(shown) <= WIDTH, shown[:2000]
    assert "\n" not in shown


def test_what_is_short_is_shown_as_it_is():
    for value in ([1, 2], (1,), (), [], {}, set(), frozenset({1}), {"a": (1, "b")}, "te  xt", 1.5, None, {3}):
        assert brief(value) == repr(value)
    assert brief(np.float64(0.5)) == "0.5"
    assert brief(np.array([[1, 2], [3, 4]])) == "array([[1, 2], [3, 4]])"
    assert brief(sp.eye_array(3, format="csr")) == "<float64 sparse array of shape (3, 3)>"
    assert brief(list(range(100))) == "[0, 1, 2, ... 100 in all]"
    assert brief("x" * 100) == f"'{'x' * 40}'... (100 in all)"
    assert repr(ParsedSentence(("a", "b"), ("D", "N"), None)) == (
        "ParsedSentence(forms=('a', 'b'), upos=('D', 'N'), xpos=None, heads=None, relations=None)"
    )


def test_large_values_that_users_meet(tmp_path):
    rng, n = np.random.default_rng(0), 4000
    table = project(
        rng.dirichlet(np.ones(5), n), (E[...] <= 1).per("document", "label"), columns={"document": np.arange(n) // 2}
    )
    words = [" ".join(f"w{k}" for k in rng.integers(0, 5000, 12)) for _ in range(2000)]
    (tmp_path / "text").write_text("".join(f"{line} ||| {line}\n" for line in words))
    pairs = read_pairs(tmp_path / "text")
    dictionary = {f"w{k}": ["a", "b"] for k in range(10_000)}
    values = [table, table.decide(), *table.constraints, pairs, pairs.bitext, pairs.bitext.source_vocabulary]
    values += [Lattice(list(rng.normal(size=(3000, 2, 3)))), compile_constraints(E[...] <= 1, table._cells.structure)]
    values += [
        read_sentences(tmp_path / "text"),
        HMMTagger(dictionary=dictionary),
        WordAligner(dictionary=[("a", "b")] * 10_000),
    ]
    for value in values:
        assert len(repr(value)) <= WIDTH, repr(value)
    assert f"proba=<float64 array of shape ({n}, 5)>" in repr(table)
    assert repr(pairs.bitext.source_vocabulary).endswith(f", ... {len(set(' '.join(words).split())):,} in all))")


def test_a_value_that_contains_itself_shows_dots_there():
    listed, mapped = [1], {"n": 1}
    listed.append(listed)
    mapped["all"] = (mapped, listed)
    assert (brief(listed), brief(mapped)) == (repr(listed), repr(mapped))
