"""Parameters that mean the same have one name, one default and one rule, and docs/parameters.md lists all of them.

``python tests/cli/test_parameters.py`` writes the page anew.
"""

import inspect
from collections import defaultdict
from pathlib import Path

from test_command_vocabulary import commands

import spectrem
from spectrem.estimators.declare import meanings, parameters_of
from spectrem.tables import ProjectedTable

PAGE = Path(__file__).parents[2] / "docs" / "parameters.md"
ESTIMATORS = [
    value
    for name in sorted(spectrem.__all__)
    if inspect.isclass(value := getattr(spectrem, name)) and hasattr(value, "get_params")
]
FUNCTIONS = {
    "project": spectrem.project,
    "ProjectedTable.decide": ProjectedTable.decide,
    "transfer_parser": spectrem.transfer_parser,
}
HOMONYMS = {
    "C": "that of CRFTagger was chosen by held-out sentences, which was done for no other model",
    "classes": "labels of items and votes both name those of a label model",
    "columns": "columns of X are no features of a model of its own, and unseen by a classifier that is given",
    "constraints": "agreement is what an aligner is for; columns and what labels do to constraints differ by model",
    "checkpoint": "a classifier that is given has a state of its own, which nothing can write",
    "corpus": "all rows of a classifier that is given are one shard",
    "covariance_type": "that of GaussianHMM is hmmlearn's, that of GaussianMixture scikit-learn's",
    "decode": "links are merged of two directions; SentenceParameters explains the defaults",
    "dictionary": "translations of words of an aligner, tags of words of a tagger",
    "dual_steps": "views must agree in every iteration; an aligner's steps are inside sentence pairs",
    "emissionprob_prior": "probabilities of categories, and shares of counts",
    "fixed": "entries of tables of a tagger by their labels, whole blocks of parameters of a mixture",
    "gamma": "project has no EM: there gamma says which projection is meant",
    "init": "every model has starts of its own",
    "max_iter": "few are best for aligners; each fits a classifier in SelfTrainer; project has its solver's",
    "min_count": "words seen once teach a parser how unseen ones behave",
    "m_tol": "a classifier's optimum is scikit-learn's to eight digits",
    "n_components": "components of a mixture, states of a series",
    "n_init": "series of numbers start in several ways, each of which may be the best",
    "n_threads": "what works on a classifier that is given is its own",
    "project_at_predict": "agreement is a part of alignment, and types beside relations of extraction",
    "random_state": "a parser's order of sentences and a transfer's halves are drawn alike unless told otherwise",
    "reference": "every model is drawn to parameters of its own kind",
    "relations": "whether a parser finds them; which ones an extractor finds",
    "schedule": "advice for aligners and mixtures",
    "smoothing": "pseudo-counts of brackets are as published",
    "tags": "those of dictionaries and of labels",
    "tol": "per row where scikit-learn's is; aligners take all of their few iterations; project has its solver's",
    "verbose": "a mixture prints its course, as scikit-learn's does",
}
"""Names whose default, rule or meaning differs between estimators, and why."""


def declarations():
    """For every name, what is declared under it, and by whom."""
    found = defaultdict(lambda: defaultdict(list))
    for estimator in ESTIMATORS:
        texts = meanings(estimator)
        for name, (default, declared) in parameters_of(estimator).items():
            text = " ".join(texts[name].split("\n", 1)[1].split()).partition(". ")[0].rstrip(".")
            rule = (str(default), tuple(sorted(declared.choices)), float(declared.least), float(declared.most), text)
            found[name][rule].append(estimator.__name__)
    for title, function in FUNCTIONS.items():
        for name, parameter in inspect.signature(function).parameters.items():
            if name in found:
                same = [rule for rule in found[name] if rule[0] == str(parameter.default)]
                found[name][same[0] if same else (str(parameter.default),)].append(title)
    return found


def test_one_meaning_has_one_name_default_and_rule():
    several = {name: dict(rules) for name, rules in declarations().items() if len(rules) > 1}
    assert {name: rules for name, rules in several.items() if name not in HOMONYMS} == {}
    assert HOMONYMS.keys() - several.keys() == set()
    assert all(HOMONYMS.values())


def table():
    """The page: a row for each name, with its defaults and whatever has it."""
    options = defaultdict(list)
    for path, command in commands():
        for one in command.params:
            options[one.opts[0]].append(path)
    rows = []
    for name, rules in sorted(declarations().items(), key=lambda item: item[0].lower()):
        variants = defaultdict(list)
        for rule, who in rules.items():
            variants["" if rule[0] == str(inspect.Parameter.empty) else f"`{rule[0]}`"] += who
        for number, (default, who) in enumerate(variants.items()):
            shown = default if "MISSING" not in default else ""
            with_option = [] if number else options[f"--{name.replace('_', '-')}"]
            rows.append((f"`{name}`", shown, ", ".join(who), ", ".join(with_option)))
    heads = ("parameter", "default", "estimators and functions", "commands that have it as an option")
    lines = [f"| {' | '.join(row)} |" for row in (heads, ("---",) * 4, *rows)]
    reasons = [f"* `{name}`: {reason}." for name, reason in sorted(HOMONYMS.items(), key=lambda item: item[0].lower())]
    return "\n".join([TITLE, *lines, "", "Why some differ:", "", *reasons, ""])


TITLE = """# Parameters

All parameters of estimators, with the functions and commands that have them, too. An option is called as its parameter,
with hyphens, and has its default unless `--help` says otherwise. This page is made and kept by
`tests/cli/test_parameters.py`.
"""


def test_the_page_lists_all_parameters():
    assert PAGE.read_text(encoding="utf-8") == table(), "write it anew: python tests/cli/test_parameters.py"


if __name__ == "__main__":
    PAGE.write_text(table(), encoding="utf-8")
