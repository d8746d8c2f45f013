"""Random problems of MaxEntClassifier, and of CRFTagger and Views, with what is wrong with the answer."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import scipy.sparse as sp
from enumerated_loglinear import Loss, label_features, sequence_features
from families import Batch, Chains, Member
from programs import Program, Slack
from rules import draw_rule, rows_of
from sklearn.linear_model import LogisticRegression

from spectrem import CRFTagger, MaxEntClassifier, Views
from spectrem.constraints.text import parse_constraint
from spectrem.exceptions import ConvergenceWarning, InfeasibleConstraintError

# How far a loss may lie above the lowest one that SciPy finds: of what training gains over weights of 0, and of itself.
OF_GAIN, OF_LOSS = 1e-5, 1e-7


class MismatchError(AssertionError):
    """A difference between the library and the oracle."""


def quietly(call):
    """What a call returns, and whether it warned that it did not converge."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = call()
    others = [w for w in caught if not issubclass(w.category, ConvergenceWarning)]
    if others:
        raise MismatchError(f"unexpected warning: {others[0].message}")
    return found, bool(caught)


def check_loss(loss, theta, converged, starts=()):
    """Whether weights are as good as those that SciPy finds."""
    best, _ = loss.minimum(theta, *starts)
    at, zero = loss.value(theta), loss.value(np.zeros(len(theta)))
    room = OF_GAIN * max(zero - best, 0.0) + OF_LOSS * abs(best) + 1e-13 * float(loss.weights.sum())
    if not converged:
        return "warned"
    if not at <= best + room:
        raise MismatchError(f"the loss is {at!r}, and SciPy finds {best!r} (that of weights 0: {zero!r})")
    return "agree"


# classifiers whose rows all have a label, or a distribution


def draw_table(rng, n, k):
    """Features of random scales and offsets, some of which tell classes apart."""
    d = int(rng.integers(1, 5))
    gold = np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
    X = rng.normal(size=(n, d)) + rng.normal(size=(k, d))[gold] * rng.choice([0.0, 1.0, 3.0])
    if rng.random() < 0.3:
        X = np.where(rng.random(X.shape) < 0.5, 0.0, X)
    kind = str(rng.choice(["unit", "unit", "small", "large", "mixed", "offset"]))
    if kind == "small":
        X = X * 1e-6
    if kind == "large":
        X = X * 1e7
    if kind == "mixed":
        X = X * 10.0 ** rng.uniform(-6, 7, d)
    if kind == "offset":
        X = X + 10.0 ** rng.uniform(0, 7, d) * (rng.random(d) < 0.7)
    return X, gold, kind


def contain(rng, X):
    kind = str(rng.choice(["dense", "csr", "csc", "list", "fortran"]))
    made = {
        "dense": X,
        "csr": sp.csr_array(X),
        "csc": sp.csc_array(X),
        "list": X.tolist(),
        "fortran": np.asfortranarray(X),
    }
    return made[kind], kind


def labelled_classifier(seed):
    """Fit on labels that are all known; compare with SciPy, scikit-learn and another container."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(8, 25)), int(rng.integers(2, 5))
    X, gold, kind = draw_table(rng, n, k)
    C = float(rng.choice([1.0, 1.0, 0.1, 100.0, 1e-4, 1e4, 1e-8]))
    l1_ratio = float(rng.choice([0.0, 0.0, 0.5, 1.0]))
    intercept = bool(rng.integers(2))
    weights = rng.choice([0.0, 0.5, 1.0, 3.0], n, p=[0.1, 0.3, 0.3, 0.3]) if rng.random() < 0.4 else None
    soft = rng.random() < 0.2
    targets = np.eye(k)[gold]
    y = gold
    if soft:
        targets = rng.dirichlet(np.ones(k), n)
        y = targets
    given, container = contain(rng, X)
    case = f"seed {seed}: features {kind} {X.shape} in {container}, {k} classes, C={C:g} l1_ratio={l1_ratio} " + (
        f"intercept={intercept} weights={weights is not None} soft={soft}"
    )
    w = np.ones(n) if weights is None else weights
    if not (w @ targets > 0).all():
        return "skipped", case
    try:
        settings = {"C": C, "l1_ratio": l1_ratio, "fit_intercept": intercept}
        ours, warned = quietly(lambda: MaxEntClassifier(**settings).fit(given, y, weights))
        if warned == ours.converged_:
            raise MismatchError(f"converged_ is {ours.converged_}, warned: {warned}")
        arrays = np.concatenate([ours.coef_.ravel(), ours.intercept_ if intercept else np.zeros(0)])
        loss = Loss(
            label_features(X, k, intercept),
            list(targets),
            w,
            np.arange(len(arrays)) < ours.coef_.size,
            (1 - l1_ratio) / C,
            l1_ratio / C,
        )
        starts = []
        if l1_ratio == 0 and not soft:
            starts.append(by_sklearn(X, gold, w, C, intercept, k))
        outcome = check_loss(loss, arrays, not warned, starts)
        scores = X @ ours.coef_.T + ours.intercept_
        scores = np.hstack([np.zeros((n, 1)), scores]) if k == 2 else scores
        expected = np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))
        apart = float(np.abs(ours.predict_proba(given) - expected).max())
        if apart > 1e-9:
            raise MismatchError(f"predict_proba is {apart:.3g} off the softmax of the scores")
        # scores are sums of terms that may be much larger, as of features far from 0
        rounding = 1e-15 * float(w @ (np.abs(X) @ np.abs(ours.coef_).T + np.abs(ours.intercept_)).max(axis=1))
        if abs(-ours.objective_ - loss.value(arrays)) > 1e-8 * max(1.0, abs(loss.value(arrays))) + rounding:
            raise MismatchError(f"objective_ is {ours.objective_!r}, and by the definition {-loss.value(arrays)!r}")
        again, _ = quietly(
            lambda: MaxEntClassifier(**settings).fit(sp.csr_array(X) if container != "csr" else X, y, weights)
        )
        between = abs(again.objective_ - ours.objective_)
        if not warned and between > (OF_LOSS + OF_GAIN) * max(1e-300, abs(ours.objective_)):
            raise MismatchError(
                f"another container gives the objective {again.objective_!r} in place of {ours.objective_!r}"
            )
    except MismatchError as error:
        raise MismatchError(f"{error}\n{case}") from None
    return outcome, case


def by_sklearn(X, gold, weights, C, intercept, k):
    """Weights that scikit-learn finds, as one flat array."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            theirs = LogisticRegression(C=C, fit_intercept=intercept, solver="newton-cholesky", tol=1e-12, max_iter=200)
            theirs.fit(X, gold, weights)
        except (ValueError, np.linalg.LinAlgError):
            return np.zeros((1 if k == 2 else k) * (X.shape[1] + intercept))
    found = np.concatenate([theirs.coef_.ravel(), theirs.intercept_ if intercept else np.zeros(0)])
    return np.where(np.isfinite(found), found, 0.0)


# classifiers with rows whose label is missing, or one of a set, under constraints


class Rows:
    """What `draw_rule` asks of a family."""

    instance_name = "row"
    keys = ("label", "labelled")


def rows_batch(allowed, known, columns):
    parts = [
        {"row": i, "label": int(k), "labelled": bool(known[i])} | columns[i]
        for i in range(len(allowed))
        for k in np.flatnonzero(allowed[i])
    ]
    owner = np.array([part["row"] for part in parts])
    structures = [[Member(np.array([p])) for p in np.flatnonzero(owner == i)] for i in range(len(allowed))]
    return Batch(None, parts, owner, owner.copy(), [], structures)


def partly_labelled_classifier(seed):
    """Fit where labels are missing, under constraints; the distributions handed back are projections at its weights."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(6, 12)), int(rng.integers(2, 4))
    X, gold, kind = draw_table(rng, n, k)
    X = X if kind in ("unit", "offset") else X / np.abs(X).max()
    known = np.arange(n) < k
    known |= rng.random(n) < 0.2
    allowed = np.where(known[:, None], np.eye(k)[gold], 1.0)
    y = [int(g) if own else None for g, own in zip(gold, known, strict=True)]
    for i in np.flatnonzero(~known):
        draw = rng.random()
        if draw < 0.2 and k > 2:
            y[i] = {int(gold[i]), int((gold[i] + 1) % k)}
            allowed[i] = [label in y[i] for label in range(k)]
        elif draw < 0.3:
            share = rng.dirichlet(np.ones(k))
            y[i], allowed[i], known[i] = dict(enumerate(share.tolist())), share, True
    columns = {
        name: [values[rng.integers(len(values))] for _ in range(n)]
        for name, values in (("x", [0.0, 1.0, 0.5, -1.0]), ("doc", ["a", "b"]), ("yes", [True, False]))
    }
    batch = rows_batch(
        allowed > 0, known, [{name: v[i] for name, v in columns.items()} | {"kind": None} for i in range(n)]
    )
    weights = rng.choice([0.5, 1.0, 2.0], n) if rng.random() < 0.4 else np.ones(n)
    share = float(rng.choice([1.0, 1.0, 0.2, 3.0]))
    gamma = float(rng.choice([-np.inf, 0.0, 0.3, 1.0, 2.0]))
    reference = np.array([allowed[i, part["label"]] for i, part in zip(batch.owner, batch.parts, strict=True)])
    reference /= np.bincount(batch.owner, reference)[batch.owner]
    rules = [draw_rule(rng, Rows, batch, j, weights, reference) for j in range(int(rng.integers(0, 3)))]
    rules = [rule for rule in rules if "kind" not in rule.text]
    case = (
        f"seed {seed}: {n} rows, {k} classes, gamma {gamma:g}, unlabelled_weight {share:g}, "
        f"weights {weights.tolist()}, y {y}\n  " + ("\n  ".join(rule.text for rule in rules))
    )
    try:
        return _check_partly(rng, X, y, allowed, known, columns, weights, share, gamma, rules, batch), case
    except MismatchError as error:
        raise MismatchError(f"{error}\n{case}") from None


def _check_partly(rng, X, y, allowed, known, columns, weights, share, gamma, rules, batch):
    _n, k = allowed.shape
    if known.all():  # a few draws label every row: nothing is learnt under constraints
        return "skipped"
    program = rows_program(allowed, known, weights, share, rules, batch)
    curved = any(slack.norm == "l2" for slack in program.slacks)
    if gamma <= 0 and curved:
        return "skipped"
    missing = program.missing()
    if 1e-9 < missing < 1e-5:
        return "border"
    possible = missing <= 1e-9 and (gamma != -np.inf or program.best_whole() is not None)
    settings = {"gamma": gamma, "unlabelled_weight": share, "max_iter": 300, "tol": 1e-9, "m_tol": 1e-10}
    classifier = MaxEntClassifier([parse_constraint(rule.text) for rule in rules], **settings)
    try:
        ours, warned = quietly(lambda: classifier.fit(X, y, weights, columns=columns))
    except InfeasibleConstraintError as error:
        if possible and not (gamma == -np.inf and "was found" in str(error)):
            raise MismatchError(f"can be met, and is refused: {error}") from None
        return "infeasible"
    except Exception as error:
        if gamma == -np.inf and "ties instances" in str(error):
            return "refused"
        raise MismatchError(f"{type(error).__name__}: {error}") from None
    if not possible:
        if warned:
            return "infeasible, warned"
        raise MismatchError(f"cannot be met (by {missing:.3g}), and is answered")
    q = ours.label_distributions_
    if not (np.isfinite(q).all() and (q >= -1e-9).all() and np.abs(q.sum(axis=1) - 1).max() < 1e-6):
        raise MismatchError("label_distributions_ are no distributions")
    if np.abs(q - np.where(allowed > 0, q, 0.0)).max() > 1e-9:
        raise MismatchError("a label has probability in a row that cannot have it")
    if np.abs(q[known] - allowed[known]).max(initial=0.0) > 1e-9:
        raise MismatchError("labelled rows do not keep what was given")
    if known.all():
        return "agree"
    scores = np.log(ours.set_params(project_at_predict=False).predict_proba(X))
    program.set_scores(scores)
    _, worst = program.cost_of(program.left @ program.flat(q))
    if worst > 1e-4 and not warned:
        raise MismatchError(f"constraints are violated by {worst:.3g}, without a warning")
    if warned:
        return "warned"
    value, _ = program.judge(program.flat(q), max(gamma, 0.0))
    if gamma > 0:
        low, high, _ = program.smooth(gamma)
    else:
        low = high = program.best_mixture() if gamma == 0 else program.best_whole()
    room = 1e-4 * max(1.0, program.spread)
    if not (low - room <= value <= high + room or (gamma == -np.inf and value <= high + room)):
        raise MismatchError(f"the distributions are worth {value!r}, and by the oracle {low!r} to {high!r}")
    # the M-step of these distributions: nothing is much better
    total = np.where(known, weights, share * weights)
    intercept = 1
    arrays = np.concatenate([ours.coef_.ravel(), ours.intercept_])
    loss = Loss(label_features(X, k, intercept), list(q), total, np.arange(len(arrays)) < ours.coef_.size, 1.0, 0.0)
    best, _ = loss.minimum(arrays)
    if ours.converged_ and gamma > 0 and loss.value(arrays) - best > 1e-3 * max(1.0, abs(best)):
        raise MismatchError(f"the loss at the last distributions is {loss.value(arrays)!r}, and SciPy finds {best!r}")
    return "agree"


def rows_program(allowed, known, weights, share, rules, batch):
    """The program of the rows that are not labelled; the others are constants in the rows of constraints."""
    fixed = np.array([allowed[part["row"], part["label"]] if known[part["row"]] else 0.0 for part in batch.parts])
    program = free_program(batch, "row", fixed, known, weights, share, rules)
    cells = [(part["row"], part["label"]) for part in batch.parts if not known[part["row"]]]

    def flat(q):
        return np.array([q[cell] for cell in cells])

    program.flat, program.set_scores = flat, lambda scores: set_scores(program, flat(scores))
    return program


def free_program(batch, instance_name, fixed, known, weights, share, rules):
    """The program of instances without labels; ``fixed`` are the marginals of the parts of the others."""
    free = np.flatnonzero(~known)
    rows = [row for j, rule in enumerate(rules) for row in rows_of(rule, j, batch, weights, instance_name)]
    rows = [row for row in rows if row.instance is None or not known[row.instance]]
    slacks = {}
    for j, row in enumerate(rows):
        if rules[row.rule].slack:
            slacks.setdefault((row.rule, row.group), []).append(j)
    made = []
    for (rule, _), numbers in slacks.items():
        instance = rows[numbers[0]].instance
        weight = share * (1.0 if instance is None else weights[instance])
        made.append(Slack(*rules[rule].slack, np.array(numbers), weight))
    coefficients = np.array([row.coefficients for row in rows]).reshape(len(rows), len(batch.parts))
    bounds = np.array([row.bound for row in rows]) - coefficients @ fixed
    listed = [(i, own) for i in free for own in batch.structures[i]]
    members = np.array([np.bincount(own.taken, minlength=len(batch.parts)) for _, own in listed], float)
    owner = np.searchsorted(free, [i for i, _ in listed])
    equality = np.array([row.equality for row in rows], bool)
    return Program(owner, np.zeros(len(owner)), members, share * weights[free], coefficients, bounds, equality, made)


def set_scores(program, scores):
    program.score = scores
    program.top = np.array([scores[program.owner == i].max() for i in range(program.n_instances)])
    program.spread = max(1.0, float((program.top[program.owner] - scores).max(initial=0.0)))


# taggers


def labelled_tagger(seed):
    """Fit a CRF on tiny sentences that are all labelled, and compare with all tag sequences."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 4))
    names = [f"f{j}" for j in range(int(rng.integers(1, 4)))]
    scale = dict(
        zip(names, 10.0 ** rng.uniform(-6, 7, len(names)) if rng.random() < 0.4 else np.ones(len(names)), strict=True)
    )
    lengths = rng.integers(1, 4, int(rng.integers(2, 6)))
    X = [
        [{name: float(rng.normal() * scale[name]) for name in names if rng.random() < 0.8} for _ in range(n)]
        for n in lengths
    ]
    y = [rng.integers(0, k, n).tolist() for n in lengths]
    y[0][0] = k - 1
    pairs = str(rng.choice(["all", "observed"]))
    C, l1_ratio = float(rng.choice([1.0, 0.1, 100.0])), float(rng.choice([0.0, 0.0, 0.5, 1.0]))
    weights = rng.choice([0.5, 1.0, 2.0], len(X)) if rng.random() < 0.4 else None
    matrices = bool(rng.random() < 0.4)
    case = (
        f"seed {seed}: tagger, {lengths.tolist()} tokens, {k} tags, "
        f"pairs={pairs} C={C:g} l1_ratio={l1_ratio} matrices={matrices} scale {scale}"
    )
    tags = list(range(k))
    given = [np.array([[token.get(name, 0.0) for name in names] for token in x]) for x in X] if matrices else X
    settings = {"tags": tags, "pairs": pairs, "C": C, "l1_ratio": l1_ratio, "m_tol": 1e-8, "n_threads": 1}
    seen = {
        (name, tag) for x, own in zip(X, y, strict=True) for token, tag in zip(x, own, strict=True) for name in token
    }
    if matrices:
        seen = {(name, tag) for name, tag in seen}
    cells = [(name, tag) for name in names for tag in tags if pairs == "all" or (name, tag) in seen]
    moved = {pair for own in y for pair in itertools.pairwise(own)}
    moves = [pair for pair in itertools.product(tags, repeat=2) if pairs == "all" or pair in moved]
    known = {name for x in X for token in x for name in token}
    cells = {cell: j for j, cell in enumerate(cell for cell in cells if cell[0] in known)}
    moves = {pair: j for j, pair in enumerate(moves)}
    try:
        ours, warned = quietly(lambda: CRFTagger(**settings).fit(given, y, weights))
        own = ours.model_.split(ours.theta_)
        table = ours.model_.support.table(own.features)
        position = {name: j for j, name in enumerate(names if matrices else ours.features_.names)}
        theta = np.array(
            [*(table[position[name], tag] for name, tag in cells), *(ours.transition_[pair] for pair in moves)]
        )
        F = sequence_features(X, k, cells, moves)
        targets = []
        for x, gold in zip(X, y, strict=True):
            sequences = list(itertools.product(tags, repeat=len(x)))
            targets.append(np.array([list(s) == gold for s in sequences], float))
        w = np.ones(len(X)) if weights is None else weights
        if np.count_nonzero(ours.theta_) != np.count_nonzero(theta):
            raise MismatchError(
                f"{np.count_nonzero(ours.theta_)} weights, and {np.count_nonzero(theta)} are of observed pairs"
            )
        loss = Loss(F, targets, w, np.ones(len(theta), bool), (1 - l1_ratio) / C, l1_ratio / C)
        outcome = check_loss(loss, theta, not warned)
        proba = ours.predict_proba(given)
        best = ours.predict(given)
        for x, f, p, chosen in zip(X, F, proba, best, strict=True):
            scores = f @ theta
            q = np.exp(scores - np.logaddexp.reduce(scores))
            sequences = np.array(list(itertools.product(tags, repeat=len(x))))
            expected = np.array([[q[sequences[:, t] == tag].sum() for tag in tags] for t in range(len(x))])
            if np.abs(expected - p).max() > 1e-8:
                raise MismatchError(f"predict_proba is {np.abs(expected - p).max():.3g} off all sequences")
            at = scores[int(np.ravel_multi_index(chosen, (k,) * len(x)))]
            if at < scores.max() - 1e-9 * max(1.0, np.abs(scores).max()):
                raise MismatchError(f"predict scores {at!r}, and the best sequence {scores.max()!r}")
    except MismatchError as error:
        raise MismatchError(f"{error}\n{case}") from None
    return outcome, case


def partly_labelled_tagger(seed):
    """Fit where sentences lack labels; posteriors of all sentences are projections at its weights."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 4))
    family = Chains(np.random.default_rng(seed), k)
    lengths = [int(n) for n in rng.integers(1, 4, int(rng.integers(3, 6)))]
    X = [rng.normal(size=(n, 2)) for n in lengths]
    tags = list(range(k))
    y = [rng.integers(0, k, n).tolist() if i < 2 else None for i, n in enumerate(lengths)]
    for i in range(2, len(y)):
        if rng.random() < 0.3:
            y[i] = [{int(t), int((t + 1) % k)} if rng.random() < 0.5 else None for t in rng.integers(0, k, lengths[i])]
    batch = family.batch(lengths)
    columns = {
        "doc": [str(rng.choice(["a", "b"])) for _ in X],
        "x": [rng.choice([0.0, 1.0, 0.5, -1.0], n).tolist() for n in lengths],
    }
    for part in batch.parts:
        part |= {
            "doc": columns["doc"][part["sentence"]],
            "x": columns["x"][part["sentence"]][part["token"]],
            "kind": None,
            "yes": False,
        }
    gamma = float(rng.choice([0.3, 1.0, 2.0]))
    reference = np.full(len(batch.parts), 1.0 / k)
    ones = np.ones(len(X))
    rules = [draw_rule(rng, family, batch, j, ones, reference) for j in range(int(rng.integers(0, 3)))]
    rules = [rule for rule in rules if not any(f"'{name}'" in rule.text for name in ("kind", "yes"))]
    case = f"seed {seed}: tagger, {lengths} tokens, {k} tags, gamma {gamma:g}, y {y}\n  " + "\n  ".join(
        rule.text for rule in rules
    )
    try:
        return _check_partly_tagger(X, y, columns, gamma, rules, batch, tags), case
    except MismatchError as error:
        raise MismatchError(f"{error}\n{case}") from None


def _check_partly_tagger(X, y, columns, gamma, rules, batch, tags):
    k, n = len(tags), len(X)
    # of the training text: labelled sentences are constants, sets of tags leave some sequences out
    known = np.arange(n) < 2
    training = narrowed(batch, y)
    fixed = np.array([float(known[part["sentence"]]) for part in training.parts])
    program = free_program(training, "sentence", fixed, known, np.ones(n), 1.0, rules)
    everything = free_program(batch, "sentence", np.zeros(len(batch.parts)), np.zeros(n, bool), np.ones(n), 1.0, rules)
    missing, missing_new = program.missing(), everything.missing()
    if 1e-9 < missing < 1e-5 or 1e-9 < missing_new < 1e-5:
        return "border"
    settings = {
        "tags": tags,
        "pairs": "all",
        "C": 1.0,
        "gamma": gamma,
        "max_iter": 200,
        "tol": 1e-9,
        "m_tol": 1e-9,
        "dual_steps": 0,
        "project_at_predict": True,
        "n_threads": 1,
    }
    tagger = CRFTagger(constraints=[parse_constraint(rule.text) for rule in rules], **settings)
    try:
        ours, warned = quietly(lambda: tagger.fit(X, y, columns=columns))
    except InfeasibleConstraintError as error:
        if missing <= 1e-9:
            raise MismatchError(f"can be met, and is refused: {error}") from None
        return "infeasible"
    if missing > 1e-9:
        if warned:
            return "infeasible, warned"
        raise MismatchError(f"cannot be met (by {missing:.3g}), and is answered")
    table = ours.model_.support.table(ours.model_.split(ours.theta_).features)
    cells = {(f, tag): f * k + tag for f in range(2) for tag in tags}
    moves = {pair: j for j, pair in enumerate(itertools.product(tags, repeat=2))}
    theta = np.concatenate([table.ravel(), ours.transition_.ravel()])
    named = [[dict(enumerate(token.tolist())) for token in x] for x in X]
    scores = [F @ theta for F in sequence_features(named, k, cells, moves)]
    scores = [own - np.logaddexp.reduce(own) for own in scores]
    kept = [[fits(own.form, y[i]) for own in structures] for i, structures in enumerate(batch.structures)]
    set_scores(
        program, np.concatenate([own[keep] for own, keep, at in zip(scores, kept, known, strict=True) if not at])
    )
    value = (
        sum(float(own[keep][0]) for own, keep, at in zip(scores, kept, known, strict=True) if at) - theta @ theta / 2
    )
    low, high, _ = program.smooth(gamma)
    room = 1e-4 * max(1.0, abs(value + high))
    if not warned and not value + low - room <= ours.objective_ <= value + high + room:
        raise MismatchError(f"objective_ is {ours.objective_!r}, and by the oracle {value + low!r} to {value + high!r}")
    try:
        found, warned_too = quietly(lambda: ours.predict_proba(X, columns=columns))
    except InfeasibleConstraintError as error:
        if missing_new <= 1e-9:
            raise MismatchError(f"predict_proba: can be met, and is refused: {error}") from None
        return "infeasible at predict"
    if missing_new > 1e-9:
        if warned_too:
            return "infeasible, warned"
        raise MismatchError(f"predict_proba: cannot be met (by {missing_new:.3g}), and is answered")
    set_scores(everything, np.concatenate(scores))
    gamma = gamma if rules else 1.0  # where there is nothing to meet, posteriors are those of the model
    q = np.concatenate([own.ravel() for own in found])
    if not (np.isfinite(q).all() and q.min() >= -1e-9 and q.max() <= 1 + 1e-9):
        raise MismatchError(f"predict_proba leaves [0, 1]: {q.min()!r} to {q.max()!r}")
    low, high, best = everything.smooth(gamma)
    apart = float(np.abs(best @ everything.members - q).max())
    if not warned_too and apart > 2e-3 + 3 * np.sqrt(max(high - low, 0.0) / gamma):
        raise MismatchError(f"predict_proba is {apart:.3g} off the projection")
    return "warned" if warned or warned_too else "agree"


def narrowed(batch, y):
    """The batch with the parts and structures that labels allow."""

    def may_be(part):
        labels = y[part["sentence"]]
        return labels is None or fits([part["tag"]], [labels[part["token"]]])

    kept = np.array([may_be(part) for part in batch.parts])
    number = np.cumsum(kept) - 1
    structures = [
        [own._replace(taken=number[own.taken]) for own in structures if fits(own.form, labels)]
        for structures, labels in zip(batch.structures, y, strict=True)
    ]
    parts = [part for part, keep in zip(batch.parts, kept, strict=True) if keep]
    return Batch(None, parts, batch.owner[kept], batch.choice[kept], [], structures)


def fits(tags, labels):
    """Whether a sequence of tags is one that labels allow: tags, sets of them, None, or nothing at all."""
    return labels is None or all(
        own is None or (tag in own if isinstance(own, set) else tag == own)
        for tag, own in zip(tags, labels, strict=True)
    )


# views in full agreement


def agreeing_views(seed):
    """Posteriors without a label are the mean of the views' scores; with all labels, views are classifiers alone."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(8, 14)), int(rng.integers(2, 4))
    tables = {name: draw_table(np.random.default_rng([seed, j]), n, k)[0] for j, name in enumerate(("a", "b"))}
    tables = {name: X / np.abs(X).max() for name, X in tables.items()}
    gold = np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
    all_known = bool(rng.random() < 0.4)
    known = (np.arange(n) < k) | all_known | (rng.random(n) < 0.3)
    y = [int(g) if own else None for g, own in zip(gold, known, strict=True)]
    gamma = float(rng.choice([0.3, 1.0, 2.0]))
    case = f"seed {seed}: views, {n} rows, {k} classes, gamma {gamma:g}, y {y}"
    try:
        made = Views(
            [(name, MaxEntClassifier(m_tol=1e-10)) for name in tables],
            gamma=gamma,
            max_iter=200,
            tol=1e-9,
            unlabelled_weight=0.0 if known.all() else 1.0,
        )
        ours, warned = quietly(lambda: made.fit(tables, y))
        mean = sum(np.log(ours.views_[name].predict_proba(tables[name])) for name in tables) / 2
        if known.all():
            for name, X in tables.items():
                alone, _ = quietly(lambda X=X: MaxEntClassifier(m_tol=1e-10).fit(X, gold))
                apart = np.abs(alone.predict_proba(X) - ours.views_[name].predict_proba(X)).max()
                if apart > 1e-3:
                    raise MismatchError(f"view {name} is {apart:.3g} off the classifier by itself")
            return "agree", case
        q = np.exp(mean / gamma - np.logaddexp.reduce(mean / gamma, axis=1, keepdims=True))
        apart = np.abs(q - ours.label_distributions_)[~known].max()
        if not warned and apart > 1e-3:
            raise MismatchError(f"distributions are {apart:.3g} off the mean of the views' scores")
    except MismatchError as error:
        raise MismatchError(f"{error}\n{case}") from None
    return "warned" if warned else "agree", case


KINDS = {
    "labelled classifiers": labelled_classifier,
    "partly labelled classifiers": partly_labelled_classifier,
    "labelled taggers": labelled_tagger,
    "partly labelled taggers": partly_labelled_tagger,
    "agreeing views": agreeing_views,
}
