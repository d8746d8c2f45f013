"""A tagger of a new kind has all that other estimators have; `markov_tagger.py` is all that it takes."""

import ast
import dataclasses
import io
import tokenize
from functools import partial
from pathlib import Path

import markov_tagger
import numpy as np
import pytest
import typer
from markov_tagger import MarkovParameters, MarkovTagger
from scipy.special import log_softmax, logsumexp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from typer.testing import CliRunner

import spectrem
from spectrem import E, part
from spectrem.cli import tagging
from spectrem.cli.declare import Given, Settings, option, takes
from spectrem.cli.training import Annealing, Home
from spectrem.corpus import Spilled
from spectrem.estimators.crf.parameters import CRFParameters
from spectrem.estimators.tagging.parameters import TaggerParameters
from spectrem.exceptions import InvalidInputError

pytestmark = pytest.mark.filterwarnings("ignore::spectrem.exceptions.ConvergenceWarning")
X = ["the dog barks", "the cat sleeps", "a dog sleeps", "a bird sings", "the bird barks"]
Y = [["D", "N", "V"], ["D", "N", "V"], ["D", "N", "V"], ["D", None, {"N", "V"}], None]


def make(**settings):
    return MarkovTagger(max_iter=4, n_threads=1, **settings)


def test_it_takes_no_more_than_150_lines_of_code():
    text = Path(markov_tagger.__file__).read_text()
    layout = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {n for token in tokens if token.type not in layout for n in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            lines -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    assert len(lines) <= 150


def test_probabilities_are_those_of_its_definition():
    tagger = make(features="tokens", C=0.5).fit([[["a"], ["b"]], [["b"], ["a"], ["b"]]], [["x", "y"], ["y", "x", "x"]])
    weights = tagger.theta_.reshape(tagger.model_.shape)
    first = log_softmax(weights[0] + weights[-1])
    second = log_softmax(weights[1] + weights[2:4], axis=1)
    [table] = tagger.predict_proba([[["a"], ["b"]]])
    np.testing.assert_allclose(table[0], np.exp(first), rtol=1e-9)
    np.testing.assert_allclose(table[1], np.exp(logsumexp(first[:, None] + second, axis=0)), rtol=1e-9)
    shards = tagger._encoded([[["a"], ["b"]], [["b"]]], None).shards
    assert tagger.model_.structure(shards[0]).n_tokens == 3


def test_it_learns_from_labels_of_all_kinds():
    tagger = make().fit(X, Y)
    assert tagger.predict(["the cat sings"]) == [["D", "N", "V"]]
    assert tagger.score(X, Y) == 1.0
    assert tagger.n_iter_ == 4
    assert "tags" in tagger.report_.summary()
    labelled = make().fit(X[:3], Y[:3])
    assert labelled.n_iter_ == 1
    assert labelled.converged_


def test_constraints_hold_in_training_and_at_prediction(tmp_path):
    rule = (E[(part("tag") == "N") & (part("previous") == "N")] >= 1).per("sentence").named("two nouns")
    tagger = make(constraints=[rule], project_at_predict=True).fit([*X, "dog cat"], [*Y, None])
    assert tagger.predict(["dog cat"]) == [["N", "N"]]
    assert [summary.name for summary in tagger.report_.summaries] == ["two nouns"]
    tagger.save(tmp_path / "model")
    loaded = spectrem.load(tmp_path / "model")
    assert isinstance(loaded, MarkovTagger)
    assert loaded.predict(["dog cat"]) == [["N", "N"]]
    np.testing.assert_array_equal(loaded.theta_, tagger.theta_)
    with pytest.raises(InvalidInputError, match="the tags are"):
        make(constraints=["E[tag == 'NN'] >= 1"]).fit(X, Y)


def test_shards_in_files_and_interrupted_runs_give_the_same_bits(tmp_path):
    whole = make().fit(X, Y)
    spilled = make(corpus=partial(Spilled, folder=str(tmp_path))).fit(X, Y)
    np.testing.assert_array_equal(spilled.theta_, whole.theta_)

    def stop(record):
        raise KeyboardInterrupt

    folder = tmp_path / "checkpoint"
    with pytest.raises(KeyboardInterrupt):
        make(checkpoint=folder, on_iteration=stop).fit(X, Y)
    np.testing.assert_array_equal(make(checkpoint=folder).fit(X, Y).theta_, whole.theta_)


def test_it_keeps_the_conventions_of_scikit_learn():
    tagger = clone(make(C=0.5))
    assert tagger.get_params()["C"] == 0.5
    assert "C : float" in MarkovTagger.__doc__
    search = GridSearchCV(make(), {"C": [0.1, 1.0]}, cv=2).fit(X[:4], [*Y[:3], ["D", "N", "V"]])
    assert search.best_params_["C"] in (0.1, 1.0)


@dataclasses.dataclass(frozen=True)
class MarkovOptions(tagging.TrainingOptions):
    __doc__ = f"{tagging.TrainingOptions.__doc__.rstrip()}\n    markov\n        Train a Markov model.\n    "

    markov: bool = option(False, group="Model")


MARKOV = tagging.Kind(
    "--markov", MarkovParameters, "markov_tagger:MarkovTagger", tagging.prepare_features,
    lambda tagger, n_words: (f"{len(tagger.theta_)} weights", f"{tagger.n_iter_} iterations"),
    ("tag", "label", "previous"), "changes nothing without --markov; add that or drop this", (),
)  # fmt: skip


def test_the_command_learns_it(tmp_path):
    app = typer.Typer()

    others = {CRFParameters: "--crf", MarkovParameters: "--markov"}

    @app.command()
    @takes(TaggerParameters, defaults={"random_state": 0}, beside=others)
    def train(options: MarkovOptions, settings: Settings, annealing: Annealing, home: Home, given: Given) -> None:
        tagging.learn((*tagging.KINDS, MARKOV), options, settings, annealing, home, given)

    labelled, model = tmp_path / "gold.txt", tmp_path / "model.npz"
    labelled.write_text("the/D dog/N barks/V\na/D cat/N sleeps/V\n")
    result = CliRunner().invoke(
        app, ["--markov", "--labelled", str(labelled), "--save", str(model), "--C", "0.5", "--quiet"]
    )
    assert result.exit_code == 0, result.output
    tagger = spectrem.load(model)
    assert (type(tagger), tagger.C) == (MarkovTagger, 0.5)
    wrong = CliRunner().invoke(app, ["--labelled", str(labelled), "--save", str(model), "--C", "0.5", "--quiet"])
    assert "--C 0.5 changes nothing without --crf" in str(wrong.exception)
    assert tagger.tags_ == ("D", "N", "V")
