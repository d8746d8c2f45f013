"""SelfTrainer against a loop written plainly, and what constraints are worth on made and on real data."""

from functools import partial

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from spectrem import E, SelfTrainer, part
from spectrem.corpus import Spilled
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError
from spectrem.learning import Constant, FitStatus, Quench

SHARE = (E[part("label") == 1] == 0.3 * E.count(..., each="row")).named("three in ten")


def blobs(seed, n=60, few=2, share=0.3, apart=2.0):
    """Two overlapping classes, ``few`` labelled rows of each; ``share`` of all rows are of class 1."""
    rng = np.random.default_rng(seed)
    gold = np.zeros(n, int)
    gold[: round(share * n)] = 1
    X = rng.normal(size=(n, 2)) + apart * gold[:, None]
    y = np.full(n, -1)
    for label in (0, 1):
        y[rng.choice(np.flatnonzero(gold == label), few, replace=False)] = label
    return X, y, gold


def proportion_oracle(classifier, X, y, weights, share, gamma, weight, iterations):
    """The loop for one constraint on the share of class 1: its multiplier by bisection, soft labels by hand."""
    known, records = y >= 0, []
    model = clone(classifier).fit(X[known], y[known], sample_weight=weights[known])
    for _ in range(iterations):
        log_p = np.log(np.maximum(model.predict_proba(X), 1e-10))
        odds = log_p[:, 1] - log_p[:, 0]

        def soft(price, odds=odds):
            return np.where(known, y == 1, expit((odds - price) / gamma))

        price = brentq(lambda price: weights @ soft(price) - share * weights.sum(), -500, 500, xtol=1e-13)
        q1 = soft(price)
        q = np.column_stack([1 - q1, q1])
        entropy = -np.sum(q * np.log(np.where(q > 0, q, 1)), axis=1)
        gain = weights * (np.sum(np.where(q > 0, q * log_p, 0), axis=1) + gamma * entropy)
        records.append(gain[known].sum() + weight * gain[~known].sum())
        w = weights * np.where(known, 1.0, weight)
        rows = np.concatenate([np.arange(len(y))] * 2)
        labels = np.repeat([0, 1], len(y))
        mass = np.concatenate([w * q[:, 0], w * q[:, 1]])
        model = clone(classifier).fit(X[rows], labels, sample_weight=mass)
    return model, q, records


@pytest.mark.filterwarnings("ignore:the classifier predicts labels hardly ever")  # at gamma = 2, and it is so
@pytest.mark.parametrize(("gamma", "weight", "weighted"), [(1.0, 1.0, False), (0.5, 0.3, True), (2.0, 1.5, True)])
def test_the_loop_is_the_plain_one(gamma, weight, weighted):
    X, y, _ = blobs(0)
    weights = np.random.default_rng(1).uniform(0.5, 2, len(y)) if weighted else np.ones(len(y))
    classifier = GaussianNB()
    model, q, objectives = proportion_oracle(classifier, X, y, weights, 0.3, gamma, weight, 4)
    trainer = SelfTrainer(classifier, [SHARE], gamma=gamma, unlabelled_weight=weight, max_iter=4, tol=0)
    trainer.fit(X, y, sample_weight=weights if weighted else None)
    np.testing.assert_allclose(trainer.label_distributions_, q, atol=1e-5)
    np.testing.assert_allclose([record.objective for record in trainer.history_], objectives, rtol=1e-5)
    np.testing.assert_allclose(trainer.predict_proba(X), model.predict_proba(X), atol=1e-4)
    assert trainer.n_iter_ == 4
    assert trainer.status_ is FitStatus.FIXED_ITERATIONS


def test_at_gamma_1_the_objective_is_likelihood_less_divergence():
    X, y, _ = blobs(2)
    trainer = SelfTrainer(LogisticRegression(), [SHARE], unlabelled_weight=0.4, max_iter=1, tol=0).fit(X, y)
    known = y >= 0
    p = LogisticRegression().fit(X[known], y[known]).predict_proba(X)
    q, record = trainer.label_distributions_[~known], trainer.history_[0]
    likelihood = np.log(p[known, y[known]]).sum()
    divergence = np.sum(q * np.log(q / p[~known]))
    assert record.objective == pytest.approx(likelihood - 0.4 * divergence, abs=1e-6)
    assert record.free_objective == pytest.approx(likelihood, abs=1e-6)
    assert record.penalty > 0.1


def test_rows_that_no_constraint_touches_keep_their_weight_in_the_objective():
    X, y, _ = blobs(3)
    weights = np.random.default_rng(0).uniform(0.2, 3, len(y))
    group = np.where(np.arange(len(y)) % 2, "tied", "free")
    tied = (E[(part("label") == 1) & (part("group") == "tied")] == 15).named("fifteen")
    trainer = SelfTrainer(GaussianNB(), [tied], gamma=0.5, unlabelled_weight=0.7, max_iter=1, tol=0)
    trainer.fit(X, y, sample_weight=weights, columns={"group": group})
    known = y >= 0
    log_p = np.log(
        np.maximum(GaussianNB().fit(X[known], y[known], sample_weight=weights[known]).predict_proba(X), 1e-10)
    )
    q = trainer.label_distributions_
    gain = weights * np.sum(np.where(q > 0, q * (log_p - 0.5 * np.log(np.where(q > 0, q, 1))), 0), axis=1)
    assert trainer.history_[0].objective == pytest.approx(gain[known].sum() + 0.7 * gain[~known].sum(), rel=1e-5)
    best = weights * 0.5 * np.log(np.sum(np.exp(log_p / 0.5), axis=1))
    assert trainer.history_[0].free_objective == pytest.approx(gain[known].sum() + 0.7 * best[~known].sum(), rel=1e-6)


def test_without_constraints_gamma_1_stays_where_it_is():
    X, y, _ = blobs(4)
    alone = LogisticRegression().fit(X[y >= 0], y[y >= 0]).predict_proba(X)
    trainer = SelfTrainer(LogisticRegression(), max_iter=1, tol=0).fit(X, y)
    np.testing.assert_allclose(trainer.label_distributions_[y < 0], alone[y < 0], atol=1e-9)


@pytest.mark.filterwarnings("ignore:the classifier predicts labels hardly ever")  # at gamma = 3, and it is so
def test_labelled_rows_stay_as_they_are():
    X, y, _ = blobs(5)
    trainer = SelfTrainer(GaussianNB(), [SHARE], gamma=3.0, max_iter=2, tol=0).fit(X, y)
    known = y >= 0
    assert (trainer.label_distributions_[known] == np.eye(2)[y[known]]).all()
    assert (trainer.transduction_[known] == y[known]).all()
    assert trainer.label_distributions_[:, 1].sum() == pytest.approx(0.3 * len(y), abs=1e-4)


def test_labelled_rows_can_be_left_out_of_constraints():
    X, y, _ = blobs(6)
    others = (E[(part("label") == 1) & ~part("labelled")] == 11).named("eleven of the others")
    q = SelfTrainer(GaussianNB(), [others], max_iter=1, tol=0).fit(X, y).label_distributions_
    assert q[y < 0, 1].sum() == pytest.approx(11, abs=1e-5)


def test_constraints_inside_rows_leave_labelled_ones_alone():
    X, y, _ = blobs(7)
    never = (E[part("label") == 1] <= 0.25).per("row").named("seldom")
    q = SelfTrainer(GaussianNB(), [never], max_iter=1, tol=0).fit(X, y).label_distributions_
    assert q[y < 0, 1].max() <= 0.25 + 1e-6
    assert q[y == 1, 1].min() == 1


@pytest.mark.parametrize("gamma", [0.0, -np.inf])
def test_hard_labels_meet_counts(gamma):
    X, y, _ = blobs(8, n=20)
    trainer = SelfTrainer(LogisticRegression(), [SHARE], gamma=gamma, max_iter=3, tol=0).fit(X, y)
    q = trainer.label_distributions_
    assert q[:, 1].sum() == pytest.approx(6, abs=1e-6)
    np.testing.assert_allclose(q, q.round(), atol=1e-6)
    known = y >= 0
    start = LogisticRegression().fit(X[known], y[known]).predict_proba(X)
    first = SelfTrainer(LogisticRegression(), [SHARE], gamma=gamma, max_iter=1, tol=0).fit(X, y)
    chosen = np.flatnonzero(~known)[np.argsort(-start[~known, 1])[: 6 - 2]]
    assert set(np.flatnonzero(first.transduction_ == 1)) == {*chosen, *np.flatnonzero(y == 1)}
    gain = np.log(start[np.arange(20), first.transduction_]).sum()
    assert first.history_[0].objective == pytest.approx(gain, rel=1e-6)


def test_weight_0_is_training_on_labels_alone():
    X, y, _ = blobs(9)
    trainer = SelfTrainer(LogisticRegression(), [SHARE], unlabelled_weight=0.0).fit(X, y)
    alone = LogisticRegression().fit(X[y >= 0], y[y >= 0])
    assert (trainer.predict_proba(X) == alone.predict_proba(X)).all()
    assert trainer.n_iter_ == 1


@pytest.mark.filterwarnings("ignore::spectrem.exceptions.NoEffectWarning")
def test_all_rows_labelled_is_the_classifier():
    X, _, gold = blobs(10)
    trainer = SelfTrainer(LogisticRegression(), [SHARE]).fit(X, gold)
    assert (trainer.predict_proba(X) == LogisticRegression().fit(X, gold).predict_proba(X)).all()
    assert trainer.score(X, gold) == LogisticRegression().fit(X, gold).score(X, gold)


def test_weights_of_rows_are_repetitions():
    X, y, _ = blobs(11)
    times = np.random.default_rng(0).integers(1, 3, len(y))
    options = {"gamma": 0.6, "max_iter": 3, "tol": 0}
    weighted = SelfTrainer(GaussianNB(), [SHARE], **options).fit(X, y, sample_weight=times)
    repeated = SelfTrainer(GaussianNB(), [SHARE], **options).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-5)
    for one, other in zip(weighted.history_, repeated.history_, strict=True):
        assert one.objective == pytest.approx(other.objective, rel=1e-6)


def test_a_schedule_runs_through_its_gammas():
    X, y, _ = blobs(12)
    seen = []
    trainer = SelfTrainer(
        GaussianNB(), [SHARE], schedule=Quench(Constant(1.0), 0.5), max_iter=2, tol=0, on_iteration=seen.append
    ).fit(X, y)
    assert [record.gamma for record in trainer.history_] == [1.0, 1.0, 0.5, 0.5]
    assert trainer.gamma_ == 0.5
    assert seen == trainer.history_


def test_constraints_that_cannot_hold():
    X, y, _ = blobs(13)
    with pytest.raises(InfeasibleConstraintError, match="too many"):
        SelfTrainer(GaussianNB(), [(E[part("label") == 1] >= 59).named("too many")]).fit(X, y)
    soft = (E[part("label") == 1] >= 59).slack(penalty=0.1)
    assert SelfTrainer(GaussianNB(), [soft], max_iter=1, tol=0).fit(X, y).history_[0].violation >= 0
    clash = [(E[part("label") == k] >= 0.6).per("row").named(f"mostly {k}") for k in (0, 1)]
    with pytest.warns(UserWarning, match="left out"):
        trainer = SelfTrainer(GaussianNB(), clash, infeasible="skip", max_iter=1, tol=0).fit(X, y)
    free = SelfTrainer(GaussianNB(), max_iter=1, tol=0).fit(X, y)
    np.testing.assert_allclose(trainer.label_distributions_, free.label_distributions_)


class SoftmaxRegression:
    """Takes probabilities as targets, as neural networks do; by gradient steps."""

    def __init__(self, steps=300):
        self.steps = steps

    def get_params(self, deep=True):
        return {"steps": self.steps}

    def set_params(self, **params):
        vars(self).update(params)
        return self

    def fit(self, X, Y, sample_weight=None):
        design = np.column_stack([X, np.ones(len(X))])
        weights = np.ones(len(X)) if sample_weight is None else sample_weight
        self.coef = np.zeros((design.shape[1], Y.shape[1]))
        for _ in range(self.steps):
            residual = weights[:, None] * (self._softmax(design @ self.coef) - Y)
            self.coef -= 0.5 * (design.T @ residual / weights.sum() + 0.01 * self.coef)
        return self

    def predict_proba(self, X):
        return self._softmax(np.column_stack([X, np.ones(len(X))]) @ self.coef)

    @staticmethod
    def _softmax(scores):
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)


class Repeating(SoftmaxRegression):
    """The same model from labels and weights."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, np.eye(2)[y], sample_weight)


def test_soft_targets_equal_repeated_rows():
    X, y, _ = blobs(14)
    options = {"unlabelled_weight": 0.5, "max_iter": 3, "tol": 0}
    soft = SelfTrainer(SoftmaxRegression(), [SHARE], soft_targets=True, **options).fit(X, y)
    repeated = SelfTrainer(Repeating(), [SHARE], **options).fit(X, y)
    np.testing.assert_allclose(soft.predict_proba(X), repeated.predict_proba(X), atol=1e-6)
    assert (soft.predict(X) == soft.predict_proba(X).argmax(axis=1)).all()


def test_warm_start_goes_on_and_ends_alike():
    X, y, _ = blobs(15)
    ends = [
        SelfTrainer(LogisticRegression(warm_start=warm, tol=1e-8), [SHARE], max_iter=3, tol=0).fit(X, y)
        for warm in (False, True)
    ]
    np.testing.assert_allclose(ends[0].predict_proba(X), ends[1].predict_proba(X), atol=1e-5)
    assert not hasattr(ends[1].estimator, "coef_")


@pytest.mark.filterwarnings("ignore:lbfgs failed to converge")
def test_warm_start_adds_up_small_steps():
    X, y, _ = blobs(15)
    options = {"gamma": 0.5, "max_iter": 40, "tol": 0}
    full = SelfTrainer(LogisticRegression(tol=1e-8), [SHARE], **options).fit(X, y).predict_proba(X)
    far = {}
    for warm in (False, True):
        classifier = LogisticRegression(warm_start=warm, max_iter=1)
        far[warm] = np.abs(SelfTrainer(classifier, [SHARE], **options).fit(X, y).predict_proba(X) - full).max()
    assert far[True] < 0.02 < 0.05 < far[False]


@pytest.mark.parametrize("seed", range(3))
def test_known_proportions_raise_accuracy(seed):
    """Three labelled rows of each class hide that one is rare."""
    X, y, gold = blobs(seed, n=1000, few=3, share=0.1)
    others = y < 0
    tenth = (E[part("label") == 1] == 0.1 * E.count(..., each="row")).named("a tenth")
    alone = LogisticRegression().fit(X[~others], y[~others])
    trainer = SelfTrainer(LogisticRegression(), [tenth], gamma=0.5, max_iter=100).fit(X, y)
    assert trainer.score(X[others], gold[others]) > alone.score(X[others], gold[others])
    assert trainer.score(X[others], gold[others]) > 0.94


def test_digits_that_differ_within_their_group():
    """Five labels per class, and each of 170 groups of ten images shows every digit once."""
    images, digits = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.permutation(np.flatnonzero(digits == digit))[:170] for digit in range(10)])
    X, gold = PCA(20, random_state=0).fit_transform(images[rows]), digits[rows]
    group = np.tile(np.arange(170), 10)
    y = np.full(len(gold), -1)
    for digit in range(10):
        y[rng.choice(np.flatnonzero(gold == digit), 5, replace=False)] = digit
    others = y < 0
    classifier = GaussianNB(var_smoothing=0.1)
    once = (E[...] <= 1).per("group", "label").named("once")
    alone = clone(classifier).fit(X[~others], y[~others]).score(X[others], gold[others])
    free = SelfTrainer(classifier, gamma=0.5, max_iter=15).fit(X, y)
    trainer = SelfTrainer(classifier, [once], gamma=0.5, max_iter=15, tol=1e-2).fit(X, y, columns={"group": group})
    assert alone < 0.86
    assert free.score(X[others], gold[others]) < 0.9
    assert trainer.score(X[others], gold[others]) > 0.92
    assert np.mean(trainer.transduction_[others] == gold[others]) > 0.96
    sums = np.zeros((170, 10))
    np.add.at(sums, group, trainer.label_distributions_)
    assert sums.max() < 1 + 1e-5


def fitted_numbers(trainer):
    return [trainer.label_distributions_, trainer.predict_proba(X_HOME), [one.objective for one in trainer.history_]]


X_HOME, Y_HOME, _ = blobs(5)


@pytest.mark.parametrize("home", ["memory", "files"])
@pytest.mark.parametrize("iterations", [1, 3])
def test_training_goes_on_from_a_checkpoint_to_the_same_bits(tmp_path, home, iterations):
    corpus = None if home == "memory" else partial(Spilled, folder=tmp_path)
    settings = {"gamma": 0.5, "max_iter": 4, "tol": 0.0, "n_threads": 1}
    classifier = LogisticRegression(C=3.0)
    whole = SelfTrainer(classifier, [SHARE], **settings).fit(X_HOME, Y_HOME)

    def interrupt(record):
        count.append(record)
        if len(count) == iterations:
            raise KeyboardInterrupt

    count = []
    kept = SelfTrainer(classifier, [SHARE], checkpoint=tmp_path / "state", corpus=corpus, **settings)
    with pytest.raises(KeyboardInterrupt):
        kept.set_params(on_iteration=interrupt).fit(X_HOME, Y_HOME)
    kept.set_params(on_iteration=None).fit(X_HOME, Y_HOME)
    again = clone(kept).fit(X_HOME, Y_HOME)  # nothing is left to do
    for other in (kept, again):
        for one, two in zip(fitted_numbers(whole), fitted_numbers(other), strict=True):
            np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(whole.report_.constraints[0].after, other.report_.constraints[0].after)
        np.testing.assert_array_equal(whole.report_.constraints[0].price, other.report_.constraints[0].price)


def test_columns_at_prediction_are_checked_and_change_nothing():
    trainer = SelfTrainer(LogisticRegression(), [SHARE], max_iter=2, tol=0.0).fit(X_HOME, Y_HOME)
    group = np.arange(len(X_HOME))
    np.testing.assert_array_equal(trainer.predict(X_HOME, columns={"group": group}), trainer.predict(X_HOME))
    np.testing.assert_array_equal(trainer.predict_proba(X_HOME, {"group": group}), trainer.predict_proba(X_HOME))
    with pytest.raises(InvalidInputError, match="group"):
        trainer.predict(X_HOME, columns={"group": group[1:]})
