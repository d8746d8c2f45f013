"""Random constraints: each as a text of the language, and as rows that plain Python makes of the same tree.

A tree is a tuple: ``("part", name)``, ``("==", name, value)``, ``("isin", name, values)``, ``("&", a, b)``,
``("|", a, b)``, ``("~", a)``, ``("times", condition, name)`` or ``("all",)``.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
USER = ("x", "doc", "kind", "yes")


@dataclass
class Row:
    """``coefficients @ parts <= bound`` (or ==); ``instance`` is None where it spans several."""

    coefficients: np.ndarray
    bound: float
    equality: bool
    instance: int | None
    rule: int
    group: object  # rows with the same rule and group share one slack


@dataclass
class Rule:
    """One constraint: an expression between bounds, once per group, with slack."""

    terms: list  # (coefficient, "E" or "count", tree, tree that divides or None)
    sense: str  # <=, >=, ==, between, max_over
    bounds: list  # one or two of: numbers, or lists of such terms
    per: tuple
    slack: tuple | None  # (kind, strength, norm)
    over: str | None
    name: str

    @property
    def text(self):
        side = sum_text(self.terms)
        groups = ", ".join(map(repr, self.per))
        if self.sense == "max_over":
            inner = f"({side}).per({groups})" if self.per else f"({side})"
            return f"max_over({self.over!r}, {inner}).penalty({self.slack[1]!r}).named({self.name!r})"
        bounds = [repr(b) if not isinstance(b, list) else sum_text(b) for b in self.bounds]
        if self.sense == "between":
            made = f"({side}).between({bounds[0]}, {bounds[1]})"
        else:
            made = f"({side} {self.sense} {bounds[0]})"
        made += f".per({groups})" if self.per else ""
        if self.slack:
            kind, strength, norm = self.slack
            made += f".slack({kind}={strength!r}, norm={norm!r})"
        return made + f".allow_empty().named({self.name!r})"


def tree_text(tree):
    kind, *rest = tree
    if kind == "all":
        return "..."
    if kind == "part":
        return f"part({rest[0]!r})"
    if kind == "isin":
        return f"part({rest[0]!r}).isin({rest[1]!r})"
    if kind in COMPARE:
        return f"(part({rest[0]!r}) {kind} {rest[1]!r})"
    if kind == "~":
        return f"~({tree_text(rest[0])})"
    if kind == "times":
        return f"({tree_text(rest[0])}) * part({rest[1]!r})"
    return f"(({tree_text(rest[0])}) {kind} ({tree_text(rest[1])}))"


def sum_text(terms):
    texts = []
    for coefficient, kind, tree, over in terms:
        text = f"E[{tree_text(tree)}]" if kind == "E" else f"E.count({tree_text(tree)})"
        text = text if over is None else f"{text} / E.count({tree_text(over)})"
        texts.append(f"{coefficient!r} * {text}" if over is None else f"{coefficient!r} * ({text})")
    return " + ".join(texts)


def value(tree, part):
    """What a tree is worth on a part; whatever compares with what is missing is false, but for !=."""
    kind, *rest = tree
    if kind == "all":
        return True
    if kind == "part":
        return part[rest[0]]
    if kind == "isin":
        return part[rest[0]] is not None and part[rest[0]] in rest[1]
    if kind in COMPARE:
        own = part[rest[0]]
        return kind == "!=" if own is None else COMPARE[kind](own, rest[1])
    if kind == "~":
        return not value(rest[0], part)
    if kind == "times":
        return value(rest[0], part) * part[rest[1]]
    one, other = (value(side, part) for side in rest)
    return (one and other) if kind == "&" else (one or other)


def draw_rule(rng, family, batch, number, weights, reference):
    """A random rule over the columns of a batch; most are met by the distribution with the marginals ``reference``."""
    rule = _draw_rule(rng, family, batch, number)
    if rng.random() < 0.25 or any(isinstance(bound, list) for bound in rule.bounds) or not rule.bounds:
        return rule
    upper = replace(rule, bounds=[0.0], sense="<=")
    rows = rows_of(upper, number, batch, weights, family.instance_name)
    reached = [row.coefficients @ reference - row.bound for row in rows]
    if not reached or (rule.sense == "==" and len(reached) > 1):
        return rule
    low, high = min(reached) - rng.choice([0.0, 0.1, 0.3]), max(reached) + rng.choice([0.0, 0.1, 0.3])
    low, high = float(np.floor(low * 1e3) / 1e3), float(np.ceil(high * 1e3) / 1e3)
    rule.bounds = {"<=": [high], ">=": [low], "==": [round(float(reached[0]), 3)], "between": [low, high]}[rule.sense]
    return rule


def _draw_rule(rng, family, batch, number):
    columns = [name for name in batch.parts[0] if name != "occurrence"]

    def atom():
        name = str(rng.choice(columns))
        known = [part[name] for part in batch.parts if part[name] is not None]
        if not known:
            return ("part", "yes")
        pick = known[rng.integers(len(known))]
        if isinstance(pick, bool):
            return ("part", name)
        if isinstance(pick, str):
            return (str(rng.choice(["==", "!="])), name, pick)
        if rng.random() < 0.3:
            return ("isin", name, [pick, known[rng.integers(len(known))]])
        return (str(rng.choice(list(COMPARE))), name, pick)

    def condition(depth=0):
        draw = rng.random()
        if draw < 0.55 or depth > 2:
            return atom()
        if draw < 0.7:
            return ("~", condition(depth + 1))
        return (str(rng.choice(["&", "|"])), condition(depth + 1), condition(depth + 1))

    def tree():
        draw = rng.random()
        return ("all",) if draw < 0.15 else ("times", condition(), "x") if draw < 0.3 else condition()

    def number_near(scale=1.0):
        return round(float(rng.choice([0.0, 1.0, 0.3, 0.5, 2.0, rng.uniform(0, 2)]) * scale), 3)

    groupable = [family.instance_name, family.instance_name, "doc", "kind", *family.keys]
    per = tuple(dict.fromkeys(map(str, rng.choice(groupable, rng.integers(0, 3)))))
    instances = len(batch.structures) if family.instance_name not in per else 1
    sense = str(rng.choice(["<=", ">=", "==", "between", "max_over"], p=[0.3, 0.25, 0.15, 0.2, 0.1]))
    over = None
    if sense == "max_over":
        over = str(rng.choice([name for name in groupable if name not in per]))
        terms = [(1, "E", tree(), None)]
        return Rule(
            terms, sense, [], per, ("penalty", round(float(rng.uniform(0.1, 2)), 3), "linf"), over, f"c{number}"
        )
    draw = rng.random()
    terms, scale = [(1, "E", tree(), None)], instances
    if draw < 0.15:
        terms = [(1, "E", condition(), condition())]
        scale = 0.5
    elif draw < 0.3:
        terms.append((round(float(rng.uniform(-1, 1)), 2), "E", condition(), None))
    bounds = [number_near(scale)]
    if sense == "between":
        bounds = sorted([number_near(scale), number_near(scale)])
    draw = rng.random()
    if sense != "between" and terms[0][3] is None and draw < 0.3:
        share = round(float(rng.choice([0.2, 0.5, 0.9])), 2)
        bounds = [[(share, "count", condition() if rng.random() < 0.5 else ("all",), None)]]
    elif sense != "between" and terms[0][3] is None and draw < 0.45:
        bounds = [[(0.5, "E", condition(), None)]]
    slack = None
    if rng.random() < 0.45:
        kind = str(rng.choice(["penalty", "bound"]))
        slack = (kind, round(float(rng.uniform(0.05, 2)), 3), str(rng.choice(["l1", "l2", "linf"])))
    return Rule(terms, sense, bounds, per, slack, None, f"c{number}")


def key_of(part, names, own):
    """The group of a part, or None: what is missing, or NULL (-1) in a column of the structure, has none."""
    key = tuple(part[name] for name in names)
    gone = any(v is None or (name in own and v == -1) for name, v in zip(names, key, strict=True))
    return None if gone else key


def rows_of(rule, number, batch, weights, instance_name):
    """The rows of a rule over a batch."""
    own = set(batch.parts[0]) - set(USER)
    names = [*rule.per] + ([rule.over] if rule.over else [])
    inside = instance_name in rule.per
    groups = {}
    for k, part in enumerate(batch.parts):
        key = key_of(part, names, own)
        if key is not None:
            groups.setdefault(key, []).append(k)

    def side(terms, members):
        """Coefficients, and a number; None where it is divided by a count of nothing."""
        coefficients, number = np.zeros(len(batch.parts)), 0.0
        for coefficient, kind, tree, over in terms:
            factor = coefficient
            if over is not None:
                whole = count(over, members)
                if whole == 0:
                    return None
                factor = coefficient / whole
            if kind == "count":
                number += factor * count(tree, members)
                continue
            for k in members:
                times = 1.0 if inside else weights[batch.owner[k]]
                coefficients[k] += factor * float(value(tree, batch.parts[k])) * times
        return coefficients, number

    def count(tree, members):
        meeting = {batch.choice[k]: batch.owner[k] for k in members if value(tree, batch.parts[k])}
        return float(sum(Fraction(1.0 if inside else weights[i]) for i in meeting.values()))

    for key, members in groups.items():
        instance = batch.owner[members[0]] if inside else None
        group = key[: len(rule.per)] if rule.sense == "max_over" else instance
        bounds = [b if isinstance(b, list) else [b] for b in rule.bounds] or [[0.0]]
        low, high = {
            "<=": (None, bounds[0]), ">=": (bounds[0], None), "==": (bounds[0], bounds[0]), "max_over": (None, bounds[0]),
            "between": (bounds[0], bounds[-1]),
        }[rule.sense]  # fmt: skip
        left = side(rule.terms, members)
        if left is None:
            continue
        sides = [(high, 1.0)] if rule.sense == "==" or low is None else [(low, -1.0)]
        equality = rule.sense == "=="
        if rule.sense == "between":
            equality = rule.bounds[0] == rule.bounds[1]
            sides = [(high, 1.0)] if equality else [(high, 1.0), (low, -1.0)]
        for bound, sign in sides:
            right = (np.zeros(len(batch.parts)), bound[0]) if not isinstance(bound[0], tuple) else side(bound, members)
            if right is None:
                continue
            coefficients = sign * (left[0] - right[0])
            yield Row(coefficients, sign * (right[1] - left[1]), equality, instance, number, group)
