"""What values show of themselves in notebooks: small, escaped, without scripts and without colours of the ground."""

import pickle
import re
from functools import partial
from html.parser import HTMLParser

import numpy as np
import pytest

from spectrem import (
    BracketingModel,
    DependencyModel,
    E,
    EdgeFactoredParser,
    HMMTagger,
    RelationExtractor,
    part,
    project,
)
from spectrem._html import MOST_LINES, MOST_SHOWN
from spectrem.constraints import compile_constraints, linear
from spectrem.data import ROOT, UNKNOWN_HEAD, ParsedSentence, RelationSentence
from spectrem.data.relations import RelationSentences
from spectrem.data.treebank import Trees
from spectrem.estimators import LinkPosteriors
from spectrem.estimators.sentence_tables import SentenceHeads, SentenceTables, head_label, span_label, tag_label
from spectrem.inference import project_batch
from spectrem.structures import Categorical, Parts

EVIL = '<img src=x onerror="alert(1)">&'


class Elements(HTMLParser):
    """Texts, pictures and the number of lines of tables; elements that are opened are closed."""

    def __init__(self, page):
        super().__init__()
        self.open, self.texts, self.labels, self.n_lines = [], [], [], 0
        self.feed(page)
        assert self.open == []
        assert "<script" not in page
        assert not re.search(r"background:\s*(#f|white)", page)

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        assert tag in {"div", "style", "p", "strong", "code", "table", "thead", "tbody", "tr", "th", "td", "span"} | {
            *("details", "summary", "svg", "path", "text", "rect", "title"),
        }
        if tag == "svg":
            assert dict(attrs)["role"] == "img"
            self.labels.append(dict(attrs)["aria-label"])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        self.n_lines += tag == "tr"

    def handle_data(self, data):
        self.texts.append(data)


def texts_of(value):
    return Elements(value._repr_html_()).texts


def test_constraints():
    few = (E[part("label") == EVIL] <= 0.2).per("row").slack(penalty=2.0)
    assert texts_of(few)[1:] == ["1 constraint", repr(few)]
    assert texts_of(few.named(EVIL))[1:] == ["1 constraint", EVIL, ": ", repr(few)]
    many = (few & few.named("second")) & (E[part("label") == 1] <= 1)
    assert "3 constraints, all of which must hold" in texts_of(many)
    assert texts_of(many)[2:] == [repr(few), "second", ": ", repr(few), repr(many[2])]
    texts = texts_of(many[:1] & many[1:2] & many & many & many & many & many & many & many & many & many & many & many)
    assert len(texts) < 4 * MOST_LINES
    assert texts[1] == "35 constraints, all of which must hold"
    assert texts_of(many & many & many & many & many & many & many & many & many & many & many & many & many & many)[
        -1
    ] == ("and 2 more")
    assert "my matrix" in texts_of(linear(np.ones((1, 3)), [1.0], "<=", name="my matrix", scope="corpus"))


def test_a_projection_shows_its_largest_prices():
    structure, scores = Categorical(np.full(30, 2)), Parts(np.tile([0.0, 2.0], 30))
    share = E[part("label") == 1] <= 9
    each = (E[part("label") == 1] <= 0.4).per("instance")
    one = project_batch(structure, scores, compile_constraints([share], structure, {}))
    texts = texts_of(one)
    assert texts[1] == "Projection: solved to the tolerance asked for"
    assert "1 of 1 row of the constraints have a price." in texts
    assert f"{one.multipliers[0]:.4g}" in texts
    page = Elements(project_batch(structure, scores, compile_constraints([each], structure, {}))._repr_html_())
    assert page.n_lines == 11
    assert "and 20 of smaller prices" in page.texts
    free = texts_of(project_batch(structure, scores))
    assert "0 of 0 rows of the constraints have a price." in free


def sentence(n, heads=None, **more):
    return ParsedSentence((EVIL, *map(str, range(1, n))), ("X",) * n, ("_",) * n, heads, **more)


def test_trees():
    tree = sentence(3, np.array([1, ROOT, UNKNOWN_HEAD]), relations=("det", EVIL, "_"))
    page = Elements(tree._repr_html_())
    assert page.labels == [f"{EVIL} 1 2: {EVIL} from 1, 1 from the root"]
    assert page.texts.count(EVIL) == 2
    assert "det" in page.texts
    assert "_" not in page.texts
    page = Elements(Trees([sentence(100, np.arange(-1, 99)), *[sentence(2)] * 9])._repr_html_())
    assert len(page.labels) == MOST_SHOWN
    assert page.labels[0].endswith("; the first 40 of 100 words")
    assert page.labels[1].endswith(": no heads")
    assert page.texts[-1] == "and 5 more"
    assert Trees([])._repr_html_().count("<svg") == 0


def test_a_tree_of_long_words_is_not_wide_and_heads_may_be_a_list():
    long = ParsedSentence(("w" * 10_000, "b"), ("A" * 10_000, "B"), ("_", "_"), [1, None], ("r" * 10_000, "_"))
    page = long._repr_html_()
    assert len(page) < 5_000
    assert float(re.search('width="([0-9.]+)"', page)[1]) < 600
    assert Elements(page).labels == [f"{'w' * 39}… b: {'w' * 39}… from b"]


def test_parsers_give_trees_and_arcs_that_show_themselves():
    trees = [sentence(3, np.array([1, ROOT, 1])), sentence(2, np.array([ROOT, 0]))]
    parser = EdgeFactoredParser(m_steps=2, m_tol=0.0).fit(trees)
    assert len(Elements(parser.parse(trees)._repr_html_()).labels) == 2
    arcs = parser.predict_proba(trees)
    texts = texts_of(arcs)
    assert "the root" in texts
    assert f"{EVIL} (1)" in texts
    assert [table.shape for table in arcs] == [(3, 3), (2, 2)]
    again = pickle.loads(pickle.dumps(arcs))
    assert again._repr_html_() == arcs._repr_html_()
    grammar = DependencyModel(max_iter=1, tol=0).fit([["D", "N", "V"]])
    assert {"D", "N (2)"} <= set(texts_of(grammar.predict_proba([["D", "N", "V"]])))


def test_heads_are_drawn_as_trees():
    words = [["D", "N", "V"], ["N", "V"]]
    heads = DependencyModel(max_iter=1, tol=0).fit(words).predict(words)
    arrows = [
        f"{word} from {'the root' if head < 0 else words[0][head]}"
        for word, head in zip(words[0], heads[0], strict=True)
    ]
    assert Elements(heads._repr_html_()).labels[0] == f"D N V: {', '.join(arrows)}"
    again = pickle.loads(pickle.dumps(heads))
    assert again._repr_html_() == heads._repr_html_()
    assert np.asarray(heads).shape == (2,)
    trees = [sentence(3, np.array([1, ROOT, 1]))]
    page = Elements(EdgeFactoredParser(m_steps=2, m_tol=0.0).fit(trees).predict(trees)._repr_html_())
    assert page.labels[0].startswith(f"{EVIL} 1 2: ")
    heads = SentenceHeads([np.array([ROOT])] * 9, [["a", "b"]])  # whose words are not known
    page = Elements(heads._repr_html_())
    assert page.labels == ["0: 0 from the root"] * MOST_SHOWN
    assert page.texts[-1] == "and 4 more"


def test_relations_of_a_sentence_and_of_a_list():
    one = RelationSentence([EVIL, "shot", "Mr", "King"], [(0, 1), (2, 4)], [EVIL, None], {(0, 1): EVIL, (1, 0): None})
    page = Elements(one._repr_html_())
    assert page.texts[1:9] == ["Sentence with 2 mentions", EVIL, " ", EVIL, " shot ", "Mr King", " ", "?"]
    assert page.texts[9:] == ["relation", EVIL, EVIL, "Mr King"]
    assert page.n_lines == 2
    long = RelationSentence(["w"] * 500, [(79, 81), (0, 2)])
    texts = texts_of(long)
    assert texts[2:] == ["w w", " ", "?", f"{' w' * 78} …"]
    texts = texts_of(RelationSentences([one] * 9))
    assert (texts[1], texts.count("Mr King"), texts[-1]) == ("9 sentences", 2 * MOST_SHOWN, "and 4 more")
    labelled = [RelationSentence(["a", "b"], [(0, 1), (1, 2)], ["X", "Y"], {(0, 1): "R"})]
    extractor = RelationExtractor(types=["X", "Y"], relations=["R"], max_iter=1, tol=0.0).fit(labelled)
    assert "1 sentence" in texts_of(extractor.predict(labelled))
    posteriors = extractor.predict_proba(labelled)
    texts = texts_of(posteriors)
    for name, row in (("a", posteriors[0].types[0]), ("b, a", posteriors[0].relations[1])):
        assert texts[texts.index(name) + 2] == f"{row.max():.2f}"
    assert texts[texts.index("a") + 1] == "X"
    assert pickle.loads(pickle.dumps(posteriors))._repr_html_() == posteriors._repr_html_()


def test_a_decision_shows_its_labels_and_a_report_of_a_constraint_itself():
    proba = np.tile([0.4, 0.3, 0.3], (60, 1))
    table = project(proba, (E[part("label") == EVIL] >= 20).named(EVIL), labels=["a", EVIL, "c"])
    decision = table.decide()
    texts = texts_of(decision)
    assert texts[1:3] == ["Decision", "status "]
    assert texts[texts.index(" · other than the best alone ") + 1] == "20 of 60"
    assert texts[-4:] == ["a", "40", EVIL, "20"]
    many = project(np.full((50, 50), 0.02), (E[...] <= 1).per("label")).decide()
    assert texts_of(many)[-1] == "and 10 more labels"
    texts = texts_of(table.constraints[0])
    assert texts[1] == "Constraint"
    assert EVIL in texts
    assert "20 ≥ 20" in texts


def test_tags_and_spans_word_by_word():
    tagger = HMMTagger(tags=["A", EVIL], init="random", random_state=0, max_iter=1, tol=0).fit([["x", EVIL]])
    texts = texts_of(tagger.predict_proba(iter([[EVIL], ["x", "x"]])))
    assert texts[1] == "Posteriors of 2 sentences"
    assert texts.count("x") == 2
    assert EVIL in texts
    spans = BracketingModel(max_iter=1, tol=0).fit([["D", "N", "V"]]).predict_proba([["D", "N", "V"]])
    assert "D N V" in texts_of(spans)
    assert "D" in texts_of(spans)


@pytest.mark.parametrize("lengths", [[3, 2], [100, 3], [10] * 6, [1] * 9, [], [0, 2]])
def test_tables_of_sentences_show_few_lines(lengths):
    tables = SentenceTables([np.full((n, 2), 0.5) for n in lengths], [], partial(tag_label, "ab"))
    page = Elements(tables._repr_html_())
    heads = page.texts.count("most probable")
    assert page.n_lines - heads == min(MOST_LINES, sum(lengths[:MOST_SHOWN]))
    if lengths == [100, 3]:
        assert page.texts[-2:] == ["and 60 words more", "and 1 sentence more"]
    if lengths == [1] * 9:
        assert page.texts[-1] == "and 4 sentences more"


def test_a_list_of_tables_that_was_changed_numbers_their_words():
    tables = SentenceTables([np.eye(2), np.eye(1)], [["a", "b"], ["c"]], partial(tag_label, ["A", "B"]))
    tables.insert(0, np.eye(3, 2))
    texts = texts_of(tables)
    assert {"0", "1", "2"} <= set(texts)
    assert not {"a", "b", "c"} & set(texts)


def test_labels_of_arcs_and_spans():
    assert head_label(["a", "b"], 0, 0) == "the root"
    assert head_label(["a", "b"], 0, 1) == "b (2)"
    assert span_label(["a", "b"], 0, 2) == "a b"
    assert span_label(["a", "b"], 0, 1) == ""
    lines = SentenceTables([np.array([[0.6, 0.4], [0.001, 0.999]])], [["a", "b"]], head_label)
    assert texts_of(lines)[2:] == [
        *("sentence 1", "most probable", "others"),
        *("a", "the root", "0.60", "b (2) 0.40"),
        *("b", "the root", "1.00"),
    ]


def test_link_posteriors():
    sizes, matrix = np.full(7, 2), np.array([[1.0, 0.0], [0.0, 0.5]])
    page = Elements(LinkPosteriors(sizes, sizes, [matrix] * 7, [matrix] * 7)._repr_html_())
    assert page.labels == [f"pair {k}, links above one half: 0-0, 1-1" for k in range(1, MOST_SHOWN + 1)]
    assert page.texts[-1] == "and 2 pairs more"
    assert len([text for text in page.texts if " – " in text]) == 2 * MOST_SHOWN  # noqa: RUF001
    big = np.ones((100, 31))
    page = Elements(LinkPosteriors(np.array([100]), np.array([31]), [big], [big])._repr_html_())
    assert "pair 1: the first 30 of 100 words and the first 30 of 31 words" in page.texts


def test_the_tables_of_many_constraints_are_folded():
    columns = {"group": np.repeat(np.arange(20), 3), "third": np.tile(np.arange(3), 20)}
    rules = [(E[(part("label") == 1) & (part("third") == k)] <= 0.3).per("group") for k in range(3)]
    one, three = (project(np.full((60, 2), 0.5), rules[:n], columns=columns)._repr_html_() for n in (1, 3))
    assert one.count("<details open>") == 1
    assert three.count("<details open>") == 1
    assert three.count("<details>") == 2
