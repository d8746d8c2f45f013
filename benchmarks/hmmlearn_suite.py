"""The tests of hmmlearn, run against Spectrem through thin classes that have its names; see README.md.

``--checkout`` is a checkout of hmmlearn's repository, of which only the tests are read. Every model is made by
``from_parameters`` and trained by ``fit``, in the public interface.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import sys
import types
from collections import Counter, deque
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import spectrem
from spectrem import emissions

REASONS = {
    r"test_variational_": "variational inference, which is not here",
    r"test_kl_divergence": "divergences, private functions for variational inference",
    r"test_do_(forward|backward|viterbi)": "private functions; `score_samples` of the same example passes",
    r"test__check_and_set_": "a private method; whole numbers of at least 0 are demanded of `X` in `fit` and `predict`",
    r"test_fill_covars": "a helper that makes full matrices of `covars_`",
    r"test_fit_too_little_data": "the text of a warning where there are fewer numbers than parameters; none here",
    r"test_fit_ignored_init_warns": "the text of a warning that a start given in part is overwritten; none here",
    r"test_fit_with_priors": "our start is at the maximum after one iteration, where later ones must gain",
    r"test_underflow_from_scaling": "an error of `implementation='scaling'` is demanded; here nothing underflows",
    r"invariant_to_sequence_ordering\[.*-diag": "k-means meets rows in another order, and EM ends at another maximum",
}
"""Patterns of the names of tests that fail, and why; the first that matches is the reason."""

WARNINGS = ("error", "ignore::DeprecationWarning", "ignore:underflow")  # as in hmmlearn's own settings


class ConvergenceMonitor:
    """The course of training, as hmmlearn reports it."""

    _template = "{iter:>10d} {log_prob:>16.8f} {delta:>+16.8f}"

    def __init__(self, tol: float, n_iter: int, verbose: bool) -> None:
        self.tol, self.n_iter, self.verbose = tol, n_iter, verbose
        self.history: deque[float] = deque()
        self.iter = 0

    def _reset(self) -> None:
        self.iter = 0
        self.history.clear()

    def report(self, log_prob: float) -> None:
        if self.verbose:
            delta = log_prob - self.history[-1] if self.history else np.nan
            print(self._template.format(iter=self.iter + 1, log_prob=log_prob, delta=delta), file=sys.stderr)
        self.history.append(log_prob)
        self.iter += 1

    @property
    def converged(self) -> bool:
        gain = self.history[-1] - self.history[-2] if len(self.history) > 1 else np.inf
        return self.iter == self.n_iter or gain < self.tol


class Hooked:
    """The emission of a model whose author writes ``_compute_log_likelihood`` only."""

    fixed = ("scores",)

    def __init__(self, model: Any) -> None:
        self.model = model

    def check(self, x: Any, names: Any) -> None: ...

    def scores(self, params: Any, x: Any) -> Any:
        return np.array(self.model._compute_log_likelihood(x))

    def means(self, params: Any) -> Any:
        return np.zeros((self.model.n_components, self.model.n_components))

    variances = means

    def of_arrays(self, arrays: Any) -> None: ...

    def arrays(self, params: Any) -> dict[str, Any]:
        return {}

    def sample(self, params: Any, states: Any, rng: Any) -> Any:
        return np.zeros((len(states), 0))

    def m_step(self, params: Any, stats: Any) -> None: ...


class BaseHMM:
    """Parameters and methods by the names of hmmlearn, carried out by a model of Spectrem."""

    named: ClassVar[Any] = None
    family: ClassVar[Any] = None
    blocks: ClassVar[dict[str, str]] = {}
    settings: ClassVar[dict[str, Any]] = {}
    defaults: ClassVar[dict[str, Any]] = {}

    def __init__(self, n_components: int = 1, *arguments: Any, **options: Any) -> None:
        letters = "st" + "".join(self.blocks)
        common = {"algorithm": "viterbi", "random_state": None, "n_iter": 10, "tol": 1e-2, "verbose": False}
        common |= {"params": letters, "init_params": letters, "implementation": "log"}
        common |= {"startprob_prior": 1.0, "transmat_prior": 1.0, **self.defaults, **self.settings}
        unknown = set(options) - set(common) - {"n_features", "min_covar"}
        assert not unknown, unknown
        self.__dict__ |= {"n_components": n_components, **common, **options}
        self.__dict__ |= dict(zip(self.settings, arguments, strict=False))
        self.monitor_ = ConvergenceMonitor(self.tol, self.n_iter, self.verbose)

    # ---- translation ------------------------------------------------------------------------------------------------

    def _settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.settings}

    def _emission_arrays(self) -> dict[str, Any]:
        return {name: np.asarray(getattr(self, f"{name}_"), float) for name in self.blocks.values()}

    def _model(self, **more: Any) -> Any:
        """The model of Spectrem with the parameters that are set; those that ``params`` leaves out are fixed."""
        if self.algorithm not in ("viterbi", "map"):
            raise ValueError(f"algorithm must be viterbi or map, got {self.algorithm!r}")
        uniform = np.full((self.n_components, self.n_components), 1 / self.n_components)
        startprob, transmat = (self.__dict__.get(name, uniform) for name in ("startprob_", "transmat_"))
        tables = {"startprob": np.asarray(startprob, float), "transmat": np.asarray(transmat, float)}
        kept = {name: table for name, table in tables.items() if name[0] not in self.params}
        options = {
            "startprob_prior": self.startprob_prior,
            "transmat_prior": self.transmat_prior,
            "fixed": kept or None,
            "n_components": self.n_components,
            "max_iter": 1,
            "tol": 0.0,
            "n_threads": 1,
            **more,
        }
        settings = self._settings()
        fixed = [name for letter, name in self.blocks.items() if letter not in self.params]
        if fixed or self.named is None:
            family = Hooked(self) if self.family is None else self.family(**settings, fixed=fixed)
            return spectrem.HMM.from_parameters(**tables, emission=self._emission_arrays(), emissions=family, **options)
        return self.named.from_parameters(**tables, emission=self._emission_arrays(), **settings, **options)

    def _take(self, model: Any, letters: str | list[str]) -> None:
        for letter, name in {"s": "startprob", "t": "transmat", **self.blocks}.items():
            if letter in letters:
                setattr(self, f"{name}_", np.array(getattr(model, f"{name}_")))

    def _rng(self, random_state: Any) -> np.random.Generator:
        if isinstance(random_state, np.random.RandomState):
            random_state = random_state.randint(1 << 31)
        return np.random.default_rng(random_state)

    # ---- what tests of hmmlearn call --------------------------------------------------------------------------------

    def _init(self, X: Any, lengths: Any = None) -> None:
        blocks = {"s": "startprob", "t": "transmat", **self.blocks}
        letters = [key for key, name in blocks.items() if key in self.init_params or not hasattr(self, f"{name}_")]
        if not letters:
            return
        start = self.named(self.n_components, n_init=10, max_iter=1, tol=0.0, n_threads=1, **self._settings())
        start.set_params(random_state=self._rng(self.random_state), init="clusters")
        self._take(start.fit(X, lengths=None if np.ndim(lengths) == 0 else lengths), letters)

    def _check(self) -> None:
        self._model()

    def fit(self, X: Any, lengths: Any = None) -> BaseHMM:
        X = np.asarray(X)
        self._init(X, lengths)
        self.monitor_._reset()
        for _ in range(self.n_iter):  # one iteration after the other, as the monitor may stop them by a rule of its own
            model = self._model().fit(X, lengths=lengths)
            self._take(model, self.params)
            self.monitor_.report(model.history_[0].free_objective)
            if self.monitor_.converged:
                break
        self.n_features = self.__dict__.get("n_features", X.shape[1])
        return self

    def score(self, X: Any, lengths: Any = None) -> float:
        return float(self._model().score_samples(np.asarray(X), lengths=lengths).sum())

    def score_samples(self, X: Any, lengths: Any = None) -> tuple[float, Any]:
        return self.score(X, lengths), self.predict_proba(X, lengths)

    def predict_proba(self, X: Any, lengths: Any = None) -> Any:
        return self._model().predict_proba(np.asarray(X), lengths=lengths)

    def predict(self, X: Any, lengths: Any = None) -> Any:
        return self.decode(X, lengths)[1]

    def decode(self, X: Any, lengths: Any = None, algorithm: str | None = None) -> tuple[float, Any]:
        X, viterbi = np.asarray(X), (algorithm or self.algorithm) == "viterbi"
        model = self._model(decode="viterbi" if viterbi else "posterior")
        states = model.predict(X, lengths=lengths)
        if not viterbi:
            return float(model.predict_proba(X, lengths=lengths).max(axis=1).sum()), states
        return float(model.score_samples(X, states, lengths=lengths).sum()), states

    def sample(self, n_samples: int = 1, random_state: Any = None, currstate: int | None = None) -> tuple[Any, Any]:
        model = self._model()
        if currstate is not None:
            self.startprob_, kept = np.eye(self.n_components)[currstate], self.startprob_
            model, self.startprob_ = self._model(), kept
        return model.sample(n_samples, self._rng(self.random_state if random_state is None else random_state))

    def aic(self, X: Any, lengths: Any = None) -> float:
        return self._model().aic(X, lengths)

    def bic(self, X: Any, lengths: Any = None) -> float:
        return self._model().bic(X, lengths)

    def get_stationary_distribution(self) -> Any:
        start = np.full(self.n_components, 1 / self.n_components)
        model = spectrem.CategoricalHMM.from_parameters(start, self.transmat_, {"emissionprob": start[:, None] ** 0})
        return model.forecast([0], h=1_000).states[-1]


class GaussianHMM(BaseHMM):
    named, family = spectrem.GaussianHMM, emissions.Gaussian
    blocks: ClassVar[dict[str, str]] = {"m": "means", "c": "covars"}
    settings: ClassVar[dict[str, Any]] = {
        "covariance_type": "diag", "means_prior": 0.0, "means_weight": 0.0, "covars_prior": 0.01, "covars_weight": 1.0,
    }  # fmt: skip

    def _emission_arrays(self) -> dict[str, Any]:
        arrays = super()._emission_arrays()
        return {
            **arrays,
            "covars": arrays["covars"].ravel() if self.covariance_type == "spherical" else arrays["covars"],
        }

    @property
    def _covars_(self) -> Any:
        return self.covars_


class PoissonHMM(BaseHMM):
    named, family = spectrem.PoissonHMM, emissions.Poisson
    blocks: ClassVar[dict[str, str]] = {"l": "lambdas"}
    settings: ClassVar[dict[str, Any]] = {"lambdas_prior": 0.0, "lambdas_weight": 0.0}


class CategoricalHMM(BaseHMM):
    named, family = spectrem.CategoricalHMM, emissions.Categorical
    blocks: ClassVar[dict[str, str]] = {"e": "emissionprob"}
    settings: ClassVar[dict[str, Any]] = {"emissionprob_prior": 1.0}

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "n_features": self.__dict__.get("n_features")}

    def fit(self, X: Any, lengths: Any = None) -> CategoricalHMM:
        n_features = self.__dict__.get("n_features")
        super().fit(X, lengths)
        self.n_features = n_features or self.emissionprob_.shape[1]
        return self


class MultinomialHMM(BaseHMM):
    named, family = spectrem.MultinomialHMM, emissions.Multinomial
    blocks: ClassVar[dict[str, str]] = {"e": "emissionprob"}
    settings: ClassVar[dict[str, Any]] = {"emissionprob_prior": 1.0, "n_trials": None}


class GMMHMM(BaseHMM):
    named, family = spectrem.GaussianMixtureHMM, emissions.GaussianMixture
    blocks: ClassVar[dict[str, str]] = {"m": "means", "c": "covars", "w": "weights"}
    settings: ClassVar[dict[str, Any]] = {
        "n_mix": 1, "weights_prior": 1.0, "means_prior": 0.0, "means_weight": 0.0, "covariance_type": "diag",
        "covars_prior": None, "covars_weight": 1.0,
    }  # fmt: skip


def normalize(a: Any, axis: int | None = None) -> None:
    sums = a.sum(axis, keepdims=True)
    a /= np.where(sums == 0, 1, sums)


def install(tests: Path) -> None:
    """Put modules of the names of hmmlearn in place, and its tests as a package of them."""
    models = (GaussianHMM, PoissonHMM, CategoricalHMM, MultinomialHMM, GMMHMM)
    content = {
        "": {"__path__": []},
        ".hmm": {one.__name__: one for one in models},
        ".base": {
            "BaseHMM": BaseHMM,
            "ConvergenceMonitor": ConvergenceMonitor,
            "DECODER_ALGORITHMS": frozenset({"viterbi", "map"}),
        },
        ".utils": {"normalize": normalize, "fill_covars": None},
        **{name: {} for name in (".vhmm", "._hmmc", "._kl_divergence")},
    }
    for name, values in content.items():
        module = types.ModuleType(f"hmmlearn{name}")
        vars(module).update(values)
        sys.modules[module.__name__] = module
        if name:
            setattr(sys.modules["hmmlearn"], name[1:], module)
    place = importlib.util.spec_from_file_location(
        "hmmlearn.tests", tests / "__init__.py", submodule_search_locations=[str(tests)]
    )
    assert place is not None
    assert place.loader is not None
    package = importlib.util.module_from_spec(place)
    sys.modules["hmmlearn.tests"] = package
    place.loader.exec_module(package)


class Results:
    """Collects the outcome of every test."""

    def __init__(self) -> None:
        self.outcomes: dict[str, tuple[str, str]] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        name = report.nodeid.rpartition("tests/")[2]
        expected = hasattr(report, "wasxfail")
        message = str(getattr(report.longrepr, "reprcrash", "") or "").splitlines()
        outcome = "expected to fail" if expected else report.outcome
        if report.when == "call" or outcome != "passed":
            self.outcomes[name] = (outcome, " ".join(message)[-300:])


def reason_of(test: str) -> str:
    return next((why for pattern, why in REASONS.items() if re.search(pattern, test)), "")


def table(outcomes: dict[str, tuple[str, str]]) -> str:
    counts = Counter((test.split("::")[0], outcome) for test, (outcome, _) in outcomes.items())
    kinds = ("passed", "failed", "expected to fail")
    lines = ["| file | passed | failed | expected to fail |", "|---|--:|--:|--:|"]
    files = sorted({file for file, _ in counts})
    for file in files:
        lines.append(f"| {file} | {' | '.join(str(counts[file, kind]) for kind in kinds)} |")
    lines.append(f"| all | {' | '.join(str(sum(counts[file, kind] for file in files)) for kind in kinds)} |")
    failed = Counter(reason_of(test) for test, (outcome, _) in outcomes.items() if outcome == "failed")
    lines += ["", "| why they fail | tests |", "|---|--:|"]
    lines += [f"| {why or 'NOT EXPLAINED'} | {n} |" for why, n in failed.most_common()]
    return "\n".join(lines)


def main() -> None:
    import pytest

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkout", type=Path, required=True, help="folder of hmmlearn's repository")
    parser.add_argument("--show", action="store_true", help="print the message of every failing test")
    parser.add_argument("tests", nargs="*", help="arguments of pytest, such as -k fit")
    options, more = parser.parse_known_args()
    tests = options.checkout / "src/hmmlearn/tests"
    if not tests.is_dir():
        sys.exit(f"--checkout must be a checkout of hmmlearn with src/hmmlearn/tests, got {options.checkout}")
    os.environ.setdefault("HMMLEARN_SEED", "0")
    install(tests)
    results = Results()
    arguments = [
        str(tests),
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-c",
        os.devnull,
        "--rootdir",
        str(tests),
    ]
    arguments += [
        "--tb=short" if options.show else "--tb=no",
        *(part for rule in WARNINGS for part in ("-W", rule)),
        *more,
        *options.tests,
    ]
    pytest.main(arguments, plugins=[results])
    if options.show:
        for test, (outcome, message) in results.outcomes.items():
            if outcome == "failed":
                print(f"{test}\n    {message}\n    {reason_of(test)}")
    print(table(results.outcomes))
    failed = [test for test, (outcome, _) in results.outcomes.items() if outcome == "failed"]
    idle = [pattern for pattern in REASONS if not any(re.search(pattern, test) for test in failed)]
    if not all(map(reason_of, failed)) or idle:
        sys.exit(f"failing tests without a reason, or reasons without a failing test: {idle}")


if __name__ == "__main__":
    main()
