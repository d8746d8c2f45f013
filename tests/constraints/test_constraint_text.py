"""The language as text: what it reads, that it reads back what it prints, and what it refuses."""

import pickle
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_constraints import EXTRA, constraints
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB

from spectrem import E, GaussianMixture, HMMTagger, SelfTrainer, WordAligner, linear, max_over, part, project
from spectrem.constraints import (
    AllOf,
    ConstraintTextError,
    agreement,
    at_least,
    at_least_one_per,
    at_most,
    cannot_link,
    check_columns,
    cluster_size,
    compile_constraints,
    dictionary_in_expectation,
    fertility,
    label_proportions,
    must_link,
    parity,
    parse_constraint,
    shortcuts,
    sparsity,
)
from spectrem.constraints.text import flatten, source_text
from spectrem.exceptions import InvalidInputError
from spectrem.structures import Categorical

KNOWN = ["row", "label", "document", "n", "word", "é"]


def assert_same_rows(left, right, structure, extra):
    one, other = (compile_constraints(listed, structure, extra) for listed in (left, right))
    assert (one.matrix != other.matrix).nnz == 0
    np.testing.assert_array_equal(one.bounds, other.bounds)
    for a, b in zip(one.blocks, other.blocks, strict=True):
        assert (a.name, a.equality, a.scope, a.slack) == (b.name, b.equality, b.scope, b.slack)
        np.testing.assert_array_equal(a.slack_group, b.slack_group)


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(constraint=constraints())
def test_what_is_printed_reads_back(make_tagging, constraint):
    again = parse_constraint(repr(constraint))
    assert again == constraint
    assert repr(again) == repr(constraint)
    assert parse_constraint(source_text(constraint)) == constraint
    assert_same_rows(constraint, again, make_tagging(), EXTRA)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(listed=st.lists(constraints(), min_size=1, max_size=3))
def test_several_read_back(listed):
    together = AllOf(tuple(listed))
    assert parse_constraint(repr(together)) == (together if len(listed) > 1 else listed[0])
    assert flatten(repr(together)) == listed


WORDS = (
    "E label per part count ... 1 1e999 not in lambda __class__ at_most must_link None True isin 20% \x00 \ud800 é for "
    "if else := ** between named slack max_over b'x' 1j"
)
pieces = st.lists(st.sampled_from([*"()[]{}.,:=<>&|~-+*/'\"#\\\n\t ", *WORDS.split(" ")]), max_size=12)


@settings(max_examples=300, deadline=None)
@given(pieces=pieces)
def test_any_text_is_read_or_refused(pieces):
    text = "".join(pieces)
    try:
        made = parse_constraint(text, ["label"])
    except ConstraintTextError:
        return
    assert flatten(repr(made)) == flatten(made)


READ = [
    ('E[label == "spam"] <= 3', E[part("label") == "spam"] <= 3),
    ("E[part('label') == 'spam'] <= 3", E[part("label") == "spam"] <= 3),
    ("  (E[label == 'title'] <= 1)\n\t.per('document')\n", (E[part("label") == "title"] <= 1).per("document")),
    ("E[...].per('document', 'label') <= 1", (E[...] <= 1).per("document", "label")),
    ("E[...].per(['document', 'label']) <= 1", (E[...] <= 1).per("document", "label")),
    ("E[label == 'spam'].between('15%', '25%')", E[part("label") == "spam"].between("15%", "25%")),
    ("3 >= E[label.isin(['a', 'b'])]", E[part("label").isin(["a", "b"])] <= 3),
    ("E[label.isin(('a', 'b'))] <= 1", E[part("label").isin(["a", "b"])] <= 1),
    ("E[label.isin({'b', 'a'})] <= 1", E[part("label").isin({"a", "b"})] <= 1),
    ("E['a' == label] <= 1", E[part("label") == "a"] <= 1),
    ("E[(label == 'a') & ~(n > 2) | (n != -1)] <= 1",
     E[(part("label") == "a") & ~(part("n") > 2) | (part("n") != -1)] <= 1),
    ("E[2 * n - (n + 1) / 3 + -n] <= +1.5e0", E[2 * part("n") - (part("n") + 1) / 3 + -part("n")] <= 1.5),
    ("E[n] - 2 * E[...] + 1 >= -E[n] / 2", E[part("n")] - 2 * E[...] + 1 >= -E[part("n")] / 2),
    ("E[n] >= (1 + 2) * 3 - 4 / 2", E[part("n")] >= 7),
    ("E[n] >= 0.9 * E.count(n, each='document')", E[part("n")] >= 0.9 * E.count(part("n"), each="document")),
    ("E[label == 1] / E.count(document == 'a') <= '20%'",
     E[part("label") == 1] / E.count(part("document") == "a") <= 0.2),
    ("E[label.allowed_by(word, {'run': ['NOUN', 'VERB'], 'be': ['VERB']})] <= 1",
     E[part("label").allowed_by(part("word"), {"run": ["NOUN", "VERB"], "be": ["VERB"]})] <= 1),
    ("(E[n] <= 1).slack(penalty=10, norm='l1').allow_empty().named('few')",
     (E[part("n")] <= 1).slack(penalty=10, norm="l1").allow_empty().named("few")),
    ("(E[n] <= 1).slack(bound=.5)", (E[part("n")] <= 1).slack(bound=0.5)),
    ("max_over('row', E[n].per('document')).penalty(3)", max_over("row", E[part("n")].per("document")).penalty(3)),
    ("(E[n] <= 1) & (E[n] >= 0)", (E[part("n")] <= 1) & (E[part("n")] >= 0)),
    ("((E[n] <= 1) & (E[n] >= 0)).per('document').named('x')",
     ((E[part("n")] <= 1) & (E[part("n")] >= 0)).per("document").named("x")),
    ("at_most(1, 'title', per='document')", at_most(1, "title", per="document")),
    ("at_least('10%', ['a', 'b'], ['document', 'row'])", at_least("10%", ["a", "b"], ["document", "row"])),
    ("label_proportions({'a': '20%', 'b': (0.1, '30%')}, per='document')",
     label_proportions({"a": 0.2, "b": (0.1, 0.3)}, per="document")),
    ("label_proportions([.2, .3, .5]).slack(penalty=5, norm='l1')",
     label_proportions([0.2, 0.3, 0.5]).slack(penalty=5, norm="l1")),
    ("parity(1, 'document', ['a', 'b'], within='5%')", parity(1, "document", ["a", "b"], within=0.05)),
    ("cluster_size('20%', max='50%')", cluster_size("20%", "50%")),
    ("at_least_one_per('document')", at_least_one_per("document")),
    ("at_least_one_per('document', 'title')", at_least_one_per("document", "title")),
    ("must_link([[0, 3], [1, 2]])", must_link([[0, 3], [1, 2]])),
    ("must_link([])", must_link([])),
    ("must_link(column='document') & cannot_link([[0, 1]]).named('apart')",
     must_link(column="document") & cannot_link([[0, 1]]).named("apart")),
    ("E[é == 1] <= 1", E[part("é") == 1] <= 1),
    ("E[n_frequency >= 3] <= 1", E[part("n_frequency") >= 3] <= 1),
]  # fmt: skip
FREE = [
    ("agreement", agreement()),
    (" fertility ", fertility()),
    ("fertility(2, min=0.5)", fertility(2, 0.5)),
    ("fertility(None, 1)", fertility(None, 1)),
    ("agreement(('pair', 'source'), ('a', 'b'))", agreement(("pair", "source"), ("a", "b"))),
    ("sparsity(32)", sparsity(32)),
    ("sparsity(32, min_count=1)", sparsity(32, min_count=1)),
    ("dictionary_in_expectation({'run': ['VERB'], 3: [1, 2]}, 5, share='10%')",
     dictionary_in_expectation({"run": ["VERB"], 3: [1, 2]}, 5, share=0.1)),
    ("E[fertility == 2] <= agreement", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "made"), READ, ids=[text for text, _ in READ])
def test_what_is_read(text, made):
    assert parse_constraint(text, KNOWN) == made == parse_constraint(text)
    assert flatten(repr(made), KNOWN) == flatten(made)
    for one in flatten(made):
        assert parse_constraint(source_text(one), KNOWN) == one


def test_a_group_of_one_reads_back_as_an_equal_constraint():
    one = parity(1, "document", ["a", "b"])
    again = parse_constraint(repr(one))
    assert len(one) == 1
    assert one == again == one
    assert hash(one) == hash(again)
    assert one != parity(1, "document", ["a", "c"])


@pytest.mark.parametrize(("text", "made"), FREE[:-1], ids=[text for text, _ in FREE[:-1]])
def test_shortcuts_of_other_structures(text, made):
    assert parse_constraint(text) == made == parse_constraint(repr(made))


@pytest.mark.parametrize("name", shortcuts.__all__)
def test_every_shortcut_can_be_called(name):
    with pytest.raises(ConstraintTextError, match=rf"character 1: {name}\("):
        parse_constraint(f"{name}(un=1)")


def test_bare_names_are_written_where_they_can_stand():
    assert source_text(E[(part("label") == "it's") & (part("class") == 1)] <= part_of("E")) == (
        "E[(label == \"it's\") & (part('class') == 1)] <= E[part('E')]"
    )
    assert source_text(E[part("at_most") + part("ﬁ")] <= 1) == "E[part('at_most') + part('ﬁ')] <= 1"


def part_of(name):
    return E[part(name)]


def test_names():
    assert parse_constraint("E[n] <= 1", name="few").name == "few"
    both = parse_constraint("(E[n] <= 1) & (E[n] >= 0).named('some')", name="n")
    assert [one.name for one in both] == ["n (1)", "n: some"]
    assert parse_constraint("must_link([[0, 1]])", name="pair").name == "pair"


REFUSED = [
    ("", 1, "there is nothing; write a bound on an expectation, such as E[label == 'spam'] <= 3"),
    (" \n ", 1, "there is nothing; "),
    ("3", 1, "3 is not a constraint; write a bound on an expectation"),
    ("E[label == 1]", 1, "E[label == 1] is not a constraint; write a bound"),
    ("label == 1", 1, "label == 1 is not a constraint; write a bound"),
    ("label", 1, "there is no shortcut 'label'; they are agreement, argument_types, at_least, "),
    ("agrement", 1, "there is no shortcut 'agrement'; did you mean 'agreement'? they are agreement, "),
    ("at_mots(1, 'a')", 1, "there is no shortcut 'at_mots'; did you mean 'at_most'? they are agreement, "),
    ("print('x')", 1, "there is no shortcut 'print'; "),
    ("__import__('os').system('x')", 1, "there is no shortcut '__import__'; "),
    ("linear([[1]], 1)", 1, "there is no shortcut 'linear'; "),
    ("E[lable == 1] <= 1", 3, "there is no column 'lable'; did you mean 'label'? the columns are 'row', 'label', "
     "'document', 'n', 'word', 'é'; put quotes around it if it is a text"),
    ("E[label == spam] <= 1", 12, "there is no column 'spam'; the columns are "),
    ("E[é == lable] <= 1", 8, "there is no column 'lable'; did you mean 'label'?"),
    ("E[label == at_most] <= 1", 12, "; at_most is a shortcut, write at_most(...); put quotes around it"),
    ("(E[n] <= 1).per('documnt')", 17, "there is no column 'documnt'; did you mean 'document'? the columns are 'row'"),
    ("(E[n] <= 1).per(document)", 1, 'per takes one or more different names of columns, got (part("document"),); wri'),
    ("E[part('documnt') == 1] <= 1", 8, "there is no column 'documnt'; did you mean 'document'?"),
    ("E.count(..., each='documnt') >= E[n]", 19, "there is no column 'documnt'; did you mean 'document'?"),
    ("max_over('rows', E[n]).penalty(1)", 10, "there is no column 'rows'; did you mean 'row'?"),
    ("at_most(1, 'a', per='documnt')", 21, "there is no column 'documnt'; did you mean 'document'?"),
    ("must_link(column='documnt')", 18, "there is no column 'documnt'; did you mean 'document'?"),
    ("agreement", 1, "there is no column 'direction'; the columns are "),
    ("at_most(1)", 1, "at_most(n, labels, per='sentence'): missing a required argument: 'labels'"),
    ("at_most(1, 'a', pre='row')", 1, "at_most(n, labels, per='sentence'): got an unexpected keyword argument 'pre'"),
    ("at_most(1, 'a', per='row', per='row')", 32, "arguments are given one by one, each once"),
    ("at_most(*[1, 'a'])", 9, "*[1, 'a'] cannot stand in a constraint"),
    ("at_most(**{'n': 1})", 11, "arguments are given one by one, each once"),
    ("at_most(-1, 'a', per='row')", 1, "at_most: n must be at least 0, got -1; expected numbers are never below"),
    ("(E[n] <= 1).slak(penalty=1)", 11, "a constraint has no method 'slak'; did you mean 'slack'? it has per, slack, "),
    ("E[label.startswith('a')] <= 1", 8, "a column or condition has no method 'startswith'; it has isin, allowed_by"),
    ("E[n].count(1) <= 1", 5, "an expectation has no method 'count'; it has per, between, at"),
    ("E.counts(n) <= 1", 2, "E has no method 'counts'; did you mean 'count'? it has count"),
    ("must_link([[0, 1]]).per('row')", 20, "links has no method 'per'; it has named"),
    ("max_over('row', E[n])", 1, "max_over(...) is not finished; add .penalty(strength)"),
    ("'a'.join(['b'])", 4, "the text 'a' has no method 'join'; it has none"),
    ("(1).real", 1, ".real must be called, as in .real(...)"),
    ("E.__class__", 1, ".__class__ must be called"),
    ("E[n].terms <= 1", 1, ".terms must be called"),
    ("0 <= E[n] <= 1", 1, "comparisons are not chained; for two bounds write E[...].between(low, high)"),
    ("E[(n > 1) and (n < 3)] <= 1", 3, "conditions are joined by &, | and ~, each in parentheses, not by and, or, not"),
    ("E[not n] <= 1", 3, "conditions are joined by &, | and ~"),
    ("E[label in ['a']] <= 1", 3, "values are looked up by .isin([...])"),
    ("E[label is 'a'] <= 1", 3, "cannot stand in a constraint"),
    ("label[0] <= 1", 1, "square brackets stand behind E only, as in E[label == 1]"),
    ("E[n, n] <= 1", 3, "a list holds texts"),
    ("E[1:2] <= 1", 3, "1:2 cannot stand in a constraint"),
    ("E['label'] <= 1", 1, 'E[...] takes a condition or weights over part(...) columns, got \'label\'; write part("la'),
    ("E[n] = 3", 6, "two sides are compared by ==, <= or >=, not by ="),
    ("E[n] < 3", 1, "a strict bound is not closed; use <="),
    ("E[n] != 3", 1, "!= is not a linear constraint; use <=, >=, == or between"),
    ("E[n] <= 'many'", 1, "expected a number, a share as '20%' or an expectation, got the text \"many\""),
    ("E[n] <= None", 1, "<= takes a finite number or an expectation, got None"),
    ("E[n] <= 1e999", 1, "<= takes a finite number or an expectation, got inf"),
    ("E[n] <= " + "9" * 5000, 1, "a number has too many digits; write one below 1e308"),
    ("E[n] <= " + "9" * 400, 9, "expected a number below 1e308 or a text, found 9999"),
    ("E[n] <= 1j", 9, "expected a number below 1e308 or a text, found 1j"),
    ("E[n == b'a'] <= 1", 8, "expected a number below 1e308 or a text, found b'a'"),
    ("E[n] * E[n] <= 1", 1, "a product of expectations is not linear; use a number"),
    ("E[n] <= 1 / 0", 9, "1 / 0 has no meaning: division by zero"),
    ("E[n] <= 2 ** 9", 9, "2 ** 9 cannot stand in a constraint"),
    ("E[n] <= 'a' * 1000000000", 9, "the text 'a' * 1000000000: there is no column on either side"),
    ("E[n] <= [1] * 3", 9, "a list * 3: there is no column on either side"),
    ("E[1 == 1] <= 1", 3, "1 == 1: there is no column on either side"),
    ("E <= 1", 1, "E <= 1: there is no column on either side"),
    ("E[n] <= -'a'", 9, "a sign stands before numbers and expectations, not before the text 'a'"),
    ("E[n] <= ~1", 9, "~1 cannot stand in a constraint"),
    ("~(E[n] <= 1)", 1, "cannot stand in a constraint"),
    ("E[n] <= 1 & E[n] >= 0", 1, "comparisons are not chained"),
    ("(E[n] <= 1) & E[n]", 1, "& joins constraints, got E[part(\"n\")]; put each comparison in parentheses"),
    ("E[label.isin('a')] <= 1", 3, "isin takes a list of values, got the text \"a\"; write isin([...])"),
    ("E[label.isin([n])] <= 1", 15, "a list holds texts and numbers, found part(\"n\"); put quotes around texts"),
    ("E[label.isin([None])] <= 1", 15, "a list holds texts and numbers, found None"),
    ("E[label.allowed_by(word, {**{}})] <= 1", 26, "cannot stand in a constraint"),
    ("label_proportions({'a': 0.1, 'a': 0.2})", 30, "the key 'a' stands here a second time; drop one"),
    ("label_proportions({[1]: 0.1})", 20, "[1] cannot be a key"),
    ("label_proportions({'a': 0.6, 'b': 0.6})", 1, "label_proportions: the lowest shares add up to 1.2, more than 1"),
    ("(lambda: 1)()", 2, "lambda: 1 cannot stand in a constraint"),
    ("[E[n] <= k for k in [1]]", 1, "cannot stand in a constraint"),
    ("E[n] <= (1 if 1 else 2)", 10, "cannot stand in a constraint"),
    ("E[n] <= f'{1}'", 9, "cannot stand in a constraint"),
    ("(x := E[n] <= 1)", 2, "cannot stand in a constraint"),
    ("E[n] <= 1 # few", 11, "a comment ends the constraint; write it on a line above or below"),
    ("E[n] <= 1 # few\n + 1", 11, "a comment ends the constraint"),
    ("E[label == 'a\nb'] <= 1", 12, "a text ends on the line on which it begins; write \\n for the end of a line"),
    ("E[n] <= 1) + (E[n]", 10, "this is not a Python expression (unmatched ')')"),
    ("E[n", 2, "this is not a Python expression ('[' was never closed)"),
    ("import os", 1, "this is not a Python expression (invalid syntax)"),
    ("E[n] <= 1; E[n] >= 0", 10, "this is not a Python expression (invalid syntax)"),
    ("E[n] <= 1\x00", 1, "this is not a Python expression (source code string cannot contain null bytes)"),
    ("E[label == '\ud800'] <= 1", 1, "this is not a Python expression ("),
    ("(" * 1000 + "1" + ")" * 1000, None, None),
    ("E[n] <= " + "-" * 100_000 + "1", None, None),
    ("E[" + " + ".join(["n"] * 20_000) + "] <= 1", 1, "it is nested too deeply; write lists of values as .isin([...])"),
    ("E[...].between(3, 1)", 1, "between needs low <= high, got low=3 and high=1; swap them"),
    ("(E[n] <= 1).slack()", 1, "slack takes exactly one of penalty= and bound=, got penalty=None and bound=None"),
    ("(E[n] <= 1).slack(penalty=1, norm='l3')", 1, 'slack: norm must be "l1", "l2" or "linf", got \'l3\''),
    ("(E[n] <= 1).named('')", 1, "a constraint's name must be a text that is not empty, got ''"),
    ("must_link([[0, 0]])", 1, "must_link: pairs must link two rows, got row 0 with itself; drop it"),
    ("cluster_size()", 1, "cluster_size bounds nothing, got min=0 and max=None; give max or a min above 0"),
    ("sparsity('a')", None, None),
    ("sparsity(1, 'a')", 1, "does not take 1, the text 'a'; write it as in sparsity(32)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "character", "message"), REFUSED, ids=[repr(case[0])[:60] for case in REFUSED])
def test_what_is_refused(text, character, message):
    with pytest.raises(ConstraintTextError) as caught:
        parse_constraint(text, [*KNOWN, "occurrence", "word_frequency"] if "sparsity" in text else KNOWN)
    told = str(caught.value)
    assert "\n" not in told
    if message is not None:
        assert re.fullmatch(r"constraint (?:.|\n)*, character \d+", caught.value.place)
        assert caught.value.place.endswith(f", character {character}"), told
        assert message in told


def test_columns_are_free_where_they_are_not_known():
    assert parse_constraint("E[fertility == anything] <= 1") == (E[part("fertility") == part("anything")] <= 1)


def test_places_are_those_of_the_caller():
    with pytest.raises(ConstraintTextError, match=r"^here 2: there is no column 'm'"):
        parse_constraint("E[m] <= 1", ["n"], place=lambda at: f"here {at}")


def test_texts_and_names_in_lists():
    few, some = (E[part("n")] <= 1), (E[part("n")] >= 0)
    assert flatten("E[n] <= 1") == [few]
    assert flatten(["E[n] <= 1", [some]]) == [few, some]
    assert flatten({"few": "E[n] <= 1", "some": some}) == [few.named("few"), some.named("some")]
    assert [one.name for one in flatten({"both": ["E[n] <= 1", some.named("s")]})] == ["both (1)", "both: s"]
    with pytest.raises(InvalidInputError, match=r"^constraints: 3 takes no name, got 'x'; put it"):
        flatten({"x": 3})


P = np.array([[0.9, 0.1], [0.4, 0.6], [0.5, 0.5]])


def test_project_takes_texts():
    expected = project(P, (E[part("label") == 1] == 2).named("two")).proba
    for said in ({"two": "E[label == 1] == 2"}, "E[label == 1] == 2", ["E[label == 1] == 2"]):
        np.testing.assert_array_equal(project(P, said).proba, expected)
    assert list(project(P, {"two": "E[label == 1] == 2"}).prices) == ["two"]
    with pytest.raises(ConstraintTextError, match="character 5: there is no column 'kin'; did you mean 'kind'"):
        project(P, "E[1*kin] <= 1", columns={"kind": [1, 2, 3]})


def test_estimators_take_texts():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 2)), np.array([0, 1] + [-1] * 28)
    for said in ("E[label == 0] == '30%'", ["E[label == 0] == '30%'"], {"some": "E[label == 0] == '30%'"}):
        mixture = GaussianMixture(2, constraints=said, random_state=0, max_iter=50).fit(x)
        assert mixture.posteriors_[:, 0].sum() == pytest.approx(9, abs=1e-3)
        pickle.loads(pickle.dumps(mixture))
        assert clone(mixture).constraints == said
        trainer = SelfTrainer(GaussianNB(), said, max_iter=5, tol=1e6).fit(x, y)
        assert trainer.label_distributions_[:, 0].sum() == pytest.approx(9, abs=1e-3)
    text, tags = [["the", "cat"], ["a", "cat"]], [["D", "N"], ["D", "N"]]
    for said in ("at_least(1, 'N')", {"noun": "at_least(1, 'N')"}):
        HMMTagger(constraints=said, project_at_predict=True).fit(text, tags).predict([["the", "the"]])
    with pytest.raises(InvalidInputError, match="there is no label 'M'"):
        HMMTagger(constraints="at_least(1, 'M')").fit(text, tags)
    with pytest.raises(ConstraintTextError, match=r"constraint 'E\[label', character 2: this is no"):
        GaussianMixture(2, constraints="E[label").fit(x)
    with pytest.raises(InvalidInputError, match="constraints must be made with E or shortcuts, got 3"):
        GaussianMixture(2, constraints=3).fit(x)


def test_the_aligner_takes_texts():
    source, target = ["a b", "b c", "a c"] * 3, ["x y", "y z", "x z"] * 3
    named = WordAligner(constraints=["agreement", "fertility"], max_fertility=1.5).fit(source, target)
    for said in ("agreement() & fertility(1.5)", ["agreement()", "fertility(1.5)"]):
        aligner = WordAligner(constraints=said).fit(source, target)
        assert aligner.history_[-1].objective == named.history_[-1].objective
        assert str(aligner.predict(source, target)) == str(named.predict(source, target))
    own = WordAligner(constraints={"few": "(E[source == -1] <= 0.1).per('sentence', 'direction')"}, dual_steps=0)
    assert own.fit(source, target).history_


def test_values_are_looked_up_in_shares_too():
    rule = parse_constraint("E[label == 1] / E.count(kind == 'invioce') <= 0.2", name="few")
    with pytest.raises(InvalidInputError, match="'few': there is no kind 'invioce'; did you mean 'invoice'"):
        check_columns(rule, {"kind": ["invoice", "letter"]})


def test_matrices_and_users_own_join():
    own = linear(np.eye(2), 1)
    both = own & (E[...] <= 1)
    assert [type(one).__name__ for one in both] == ["LinearConstraint", "Constraint"]
    assert len(compile_constraints(both, Categorical([2])).blocks) == 2
    with pytest.raises(InvalidInputError, match=r"has no \.per\(\.\.\.\); write it behind the others, before &"):
        both.per("label")
    with pytest.raises(InvalidInputError, match="& joins constraints, got 3"):
        own & 3
    assert (both & own)[2] is own
    assert both[:1] == AllOf((own,))
