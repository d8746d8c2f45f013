"""The progress bar of ``verbose``: on terminals and in notebooks, silent elsewhere, and gone at the end."""

import inspect
import io
import logging
import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone

import spectrem
from spectrem import E, GaussianHMM, GaussianMixture, HMMTagger, MaxEntClassifier, WordAligner, part, project
from spectrem.estimators import progress
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Anneal

SERIES = np.arange(12.0) % 5
TEXT = [["a", "b"], ["b", "c"]] * 3


class Terminal(io.StringIO):
    def isatty(self):
        return True


def put_terminal(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    return stream


@pytest.fixture
def amounts(monkeypatch):
    """Totals of the bars that are shown, and what they are told."""
    totals, moves = [], []

    class Bar:
        def __init__(self, total, *, shown):
            assert shown
            totals.append(total)

        def __enter__(self):
            return lambda doing, amount=0.0: moves.append((doing, amount))

        def __exit__(self, *_):
            return None

    monkeypatch.setattr(progress, "progress_bar", Bar)
    return totals, moves


def test_silent_by_default_and_elsewhere(monkeypatch):
    terminal = put_terminal(monkeypatch)
    HMMTagger(n_states=2, init="random", random_state=0, max_iter=2, tol=0).fit(TEXT)
    assert terminal.getvalue() == ""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    HMMTagger(n_states=2, init="random", random_state=0, max_iter=2, tol=0, verbose=True).fit(TEXT)
    project([[0.5, 0.5]], [], verbose=True).decide(verbose=True)
    assert stream.getvalue() == ""


def test_a_bar_on_a_terminal(monkeypatch, capsys):
    terminal = put_terminal(monkeypatch)
    HMMTagger(n_states=2, init="random", random_state=0, max_iter=2, tol=0, verbose=True).fit(TEXT)
    assert "Finishing" in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[2K")  # the line is erased
    assert capsys.readouterr().out == ""
    rule = E[part("label") == 1] == 1
    project([[0.5, 0.5], [0.6, 0.4]], rule, verbose=True).decide(verbose=True)
    assert "Projecting" in terminal.getvalue()
    assert "Deciding" in terminal.getvalue()


def test_a_bar_in_a_notebook(monkeypatch):
    """rich draws there with ipywidgets, which warns where it is missing; here what matters is that it draws."""
    drawn = []
    monkeypatch.setitem(sys.modules, "IPython", None)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("rich.live.Live.refresh", lambda self: drawn.append(self.console.is_jupyter))
    HMMTagger(n_states=2, init="random", random_state=0, max_iter=2, tol=0, verbose=True).fit(TEXT)
    assert set(drawn) == {True}


def test_the_bar_says_that_kernels_are_compiled(monkeypatch):
    log, said = logging.getLogger("spectrem.compiling"), []
    put_terminal(monkeypatch)
    monkeypatch.setattr("rich.progress.Progress.update", lambda *_, description, **more: said.append(description))

    def compile_one(record):
        log.info("compiling %s", "one")
        log.info("compiled %s", "one")

    settings = {"init": "random", "random_state": 0, "max_iter": 1, "tol": 0, "verbose": True}
    HMMTagger(n_states=2, on_iteration=compile_one, **settings).fit(TEXT)
    at = said.index("Compiling kernels, once: 1 so far", said.index("Training"))
    assert said[at - 1] == said[at + 1] != "Training"
    assert said[at + 1].startswith("Training: gamma 1, objective -")


@pytest.mark.parametrize(
    ("estimator", "data", "n_stages"),
    [
        (HMMTagger(n_states=2, init="random", random_state=0, max_iter=2, tol=0, n_init=3), (TEXT,), 3),
        (HMMTagger(n_states=2, init="random", random_state=0, max_iter=3, tol=0.5, schedule=Anneal(0.5)), (TEXT,), 5),
        (WordAligner(max_iter=2, model1_iterations=4), (TEXT, TEXT), 3),
        (WordAligner(model="ibm1", max_iter=2), (TEXT, TEXT), 1),
        (MaxEntClassifier(m_steps=3), (np.eye(2), [0, 1]), 1),
        (GaussianHMM(init="clusters", n_init=1, max_iter=2, tol=0), (SERIES,), 1),
        (GaussianHMM(n_init=2, max_iter=2, tol=0, random_state=0), (SERIES,), 2),
        (GaussianHMM(n_init=2, max_iter=2, tol=0), (SERIES, [0, 0, 1, *[None] * 9]), 2),
    ],
)
@pytest.mark.filterwarnings("ignore::spectrem.exceptions.ConvergenceWarning")
def test_the_bar_reaches_its_end(amounts, estimator, data, n_stages):
    totals, moves = amounts
    records = []
    estimator.set_params(verbose=True, on_iteration=records.append).fit(*data)
    assert totals == [n_stages]
    assert sum(amount for _, amount in moves) == pytest.approx(n_stages)
    assert min(amount for _, amount in moves) >= 0
    assert moves[0] == ("Training", 0.0)
    assert moves[1][0].startswith("Training: gamma ")
    assert [doing for doing, _ in moves].count("Finishing") == 1
    assert len(records) == len(moves) - 2  # one's own listener is called, and comes back
    assert estimator.on_iteration == records.append


def test_the_listener_comes_back_after_an_error(amounts):
    tagger = HMMTagger(n_states=2, verbose=True)
    with pytest.raises(InvalidInputError):
        tagger.fit([])
    assert tagger.on_iteration is None


def test_a_copy_that_is_made_while_the_bar_is_shown_has_the_listener_of_its_estimator():
    for listener in print, None:
        tagger = HMMTagger(n_states=2, on_iteration=listener)
        with progress.iterations_shown(tagger, lambda doing, amount=0.0: None):
            assert tagger.on_iteration is not listener
            for copy in clone(tagger), pickle.loads(pickle.dumps(tagger)):
                assert copy.on_iteration is listener


def test_without_a_terminal_nothing_is_drawn_and_nothing_loaded_for_it():
    code = (
        "import sys; from spectrem._progress import progress_bar\n"
        "for stream in sys.stderr, None:\n"
        "    sys.stderr = stream\n"
        "    with progress_bar(1.0, shown=True) as bar: bar('Training')\n"
        "print('rich' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_every_estimator_shows_its_progress_or_has_a_way_of_its_own():
    for name in spectrem.estimators.__all__:
        cls = getattr(spectrem.estimators, name)
        if hasattr(cls, "fit") and cls is not GaussianMixture:  # which prints as scikit-learn's does
            assert cls().verbose is False if name not in ("SelfTrainer", "Views") else True
            assert inspect.unwrap(cls.fit) is not cls.fit, name


def test_verbose_is_true_or_false():
    with pytest.raises(InvalidInputError, match="verbose must be True or False; got 2"):
        HMMTagger(n_states=2, verbose=2).fit(TEXT)
    with pytest.raises(InvalidInputError, match="verbose must be True or False; got 'yes'"):
        project([[0.5, 0.5]], [], verbose="yes")
    with pytest.raises(InvalidInputError, match="verbose must be True or False; got 1"):
        project([[0.5, 0.5]], []).decide(verbose=1)
