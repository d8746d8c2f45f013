"""One reader of sentences: their words and tags, what is known of the labels of tokens, and columns for constraints."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._heads import ROOT, UNKNOWN_HEAD
from spectrem.constraints import check_columns, check_values
from spectrem.constraints.columns import as_column
from spectrem.constraints.compilation.groups import Key
from spectrem.constraints.values import MAY_BE_EMPTY, check_spelling
from spectrem.data.treebank import is_projective, projectivise
from spectrem.estimators.conventions import PerSentence, row_weights
from spectrem.estimators.labels import Kind, Known, LabelReader, is_unlabelled
from spectrem.exceptions import InvalidInputError, advice, quoted, setting, warn
from spectrem.models.shards import Columns
from spectrem.structures._ragged import offsets_of, ranges_of

if TYPE_CHECKING:
    from spectrem.models.loglinear import Labels

Word: TypeAlias = str | int
Tag: TypeAlias = str | int
Sentences: TypeAlias = Sequence[str] | Sequence[Sequence[Word]]
TokenLabelsLike: TypeAlias = Sequence[Sequence[Any] | NDArray[Any] | str | None] | NDArray[Any]
"""A label per token for every sentence, see `read_labels`; None for sentences without labels."""
Heads: TypeAlias = Sequence[Sequence[int | None] | ArrayLike | None]
"""The position of the head of every word, -1 for the root; None for sentences without heads."""


# ---- words ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LabelledText:
    """Sentences as one run of words, and what is known of their tags.

    Attributes
    ----------
    words : list of n_tokens str or int
    lengths : ndarray of shape (n_sentences,), int64
    labels : TokenLabels
    """

    words: list[Word]
    lengths: Ints
    labels: TokenLabels


def read_text(sentences: Sentences, y: TokenLabelsLike | None = None) -> LabelledText:
    """Flatten sentences and labels, which have no distributions; texts among both are split at spaces.

    Raises
    ------
    InvalidInputError
        If either is not a sequence of sentences, a word is neither text nor a whole number, ``y`` has another length
        than its sentences, or a label is not a tag, or an empty collection.
    """
    listed = [_words(sentence, n) for n, sentence in enumerate(as_sentences(sentences, "sentences"))]
    lengths = np.array([len(sentence) for sentence in listed], np.int64)
    words = [word for sentence in listed for word in sentence]
    labels = TokenLabels(np.full(len(words), -1), [], lengths)
    for kind in set(map(type, words)):
        if kind is bool or not issubclass(kind, str | int):
            at = next(n for n, word in enumerate(words) if type(word) is kind)
            raise InvalidInputError(
                f"words must be text or whole numbers, got {words[at]!r} in {labels.place(at)}; turn tokens into "
                "strings"
            )
    return LabelledText(words, lengths, labels if y is None else read_labels(y, lengths, soft=False))


def as_sentences(value: Any, name: str) -> list[Any]:
    """A list of sentences, or of what is known of their labels; ``name`` is the argument that errors speak of."""
    if isinstance(value, str | Mapping) or not hasattr(value, "__iter__"):
        what = f"the string {value!r}" if isinstance(value, str) else f"{type(value).__name__} {value!r}"
        raise InvalidInputError(f"{name} must be a sequence of sentences, got {what}; put it in a list")
    return list(value)


def _split(text: str) -> list[str]:
    """Tokens between blanks and tabs; no-break spaces, such as those in numbers, are parts of words."""
    return re.findall(r"[^ \t\r\n]+", text)


def _words(sentence: Any, n: int) -> list[Any]:
    if isinstance(sentence, str):
        return _split(sentence)
    if isinstance(sentence, np.ndarray):
        return sentence.tolist()
    if isinstance(sentence, Mapping | bytes) or not hasattr(sentence, "__iter__"):
        raise InvalidInputError(
            f"every sentence must be a sequence of words or a string, got {sentence!r} for sentence {n}; for a single "
            "sentence, put it in a list"
        )
    return [word.item() if isinstance(word, np.generic) else word for word in sentence]


# ---- tags -----------------------------------------------------------------------------------------------------------


def sort_tags(tags: Iterable[Tag]) -> tuple[Tag, ...]:
    """Distinct tags in increasing order, numbers before text."""
    return tuple(sorted(set(tags), key=lambda tag: (isinstance(tag, str), tag)))


def check_tag(tag: object, where: str) -> Tag:
    """A tag as plain text or number.

    Raises
    ------
    InvalidInputError
        If it is neither.
    """
    plain = tag.item() if isinstance(tag, np.generic) else tag
    if isinstance(plain, bool) or not isinstance(plain, str | int):
        raise InvalidInputError(f"{where} must hold tags (text or whole numbers), got {tag!r}; name the tag")
    return plain


def check_tags(tags: Any, name: str = "tags") -> tuple[Tag, ...]:
    """The parameter ``tags``, or that of the ``name``, as plain texts or numbers.

    Raises
    ------
    InvalidInputError
        If it is a string, empty, holds something else than tags, or one of them twice.
    """
    if isinstance(tags, str):
        raise InvalidInputError(f"{name} must be a sequence of {name}, got the string {tags!r}; put it in a list")
    checked = tuple(check_tag(tag, name) for tag in tags)
    marks = [tag for tag in checked if is_unlabelled(tag)]
    if marks:
        raise InvalidInputError(f"{name} must not hold {marks[0]!r}, which marks tokens without one; leave it out")
    repeated = next((tag for tag, count in Counter(checked).items() if count > 1), None)
    if not checked or repeated is not None:
        what = "none" if not checked else f"{repeated!r} twice"
        raise InvalidInputError(f"{name} must be distinct and at least one, got {what}; list every {name[:-1]} once")
    return checked


def tag_names(tags: Sequence[Any]) -> tuple[Any, ...]:
    """The names of tags in constraints: whole numbers if all tags are, else text."""
    return tuple(map(str, tags)) if any(isinstance(tag, str) for tag in tags) else tuple(tags)


def tag_numbers(tags: Sequence[Tag], words: Sequence[Any], unknown: int = -1) -> Ints:
    """The numbers of the tags of all words, ``unknown`` for those that are none of these tags."""
    index = {tag: number for number, tag in enumerate(tags)}
    return np.fromiter((index.get(word, unknown) for word in words), np.int64, len(words))


def check_tag_values(constraints: Any, tags: Sequence[Tag], columns: Sequence[str] = ("tag", "label")) -> None:
    """Raise `InvalidInputError` if a constraint on one of the columns names a tag that there is not."""
    for column in columns:
        check_values(constraints, column, tag_names(tags))


def shown_tags(tags: Sequence[Tag], most: int = 12) -> str:
    """Tags for a message, the first ones of many."""
    text = ", ".join(map(str, tags[:most]))
    return text if len(tags) <= most else f"{text} and {len(tags) - most} more"


# ---- labels of tokens -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TokenLabels:
    """The labels, sets and distributions of labels that tokens have.

    Attributes
    ----------
    kind : ndarray of shape (n_tokens,), int64
        Which of ``kinds`` a token has; -1 for none.
    kinds : list of (tags, shares)
        Tags that a token may have, sorted where they have no shares, and their probabilities or None.
    lengths : ndarray of shape (n_sentences,), int64
    """

    kind: Ints
    kinds: list[Kind]
    lengths: Ints

    @property
    def tags(self) -> tuple[Tag, ...]:
        """All tags that occur, sorted."""
        return sort_tags(tag for tags, _ in self.kinds for tag in tags)

    def evidence(self, tags: Sequence[Tag]) -> Floats:
        """The evidence of labels on the tags of every token, nats, shape (n_tokens, n_tags)."""
        self.numbers(tags)
        return Known(self.kind, self.kinds).evidence(tags)

    def keys(self, token: int) -> dict[str, int]:
        """Sentence and position of a token, from 0."""
        ends = np.cumsum(self.lengths)
        sentence = int(np.searchsorted(ends, token, side="right"))
        return {"sentence": sentence, "token": token - int(ends[sentence] - self.lengths[sentence])}

    def place(self, token: int) -> str:
        """Where a token stands, for messages."""
        return ", ".join(f"{name} {number}" for name, number in self.keys(token).items())

    def score(self, predicted: Sequence[Sequence[Any]], sample_weight: ArrayLike | None, tags: Sequence[Tag]) -> float:
        """The share of tokens with a label, by the weight of their sentences, whose tag is right; see `Known.score`."""
        weights = np.repeat(row_weights(sample_weight, len(self.lengths), "sentence"), self.lengths)
        return Known(self.kind, self.kinds).score(chain.from_iterable(predicted), weights, tags, "token")

    def known(self) -> Bools:
        """Sentences where every token has one label or a distribution, shape (n_sentences,).

        Raises
        ------
        InvalidInputError
            If a sentence has a distribution beside tokens without one and without a label.
        """
        if not self.kinds:
            return np.zeros(len(self.lengths), np.bool_)
        certain = Known(self.kind, self.kinds).certain
        soft = np.append([shares is not None for _, shares in self.kinds], False)[self.kind]
        whole = self._count(certain) == self.lengths
        mixed = (self._count(soft) > 0) & ~whole
        if mixed.any():
            start, stop = offsets_of(self.lengths)[int(np.argmax(mixed)) :][:2]
            token = int(start + np.argmin(certain[start:stop]))
            error = InvalidInputError(
                "y must give every token of a sentence a label or a distribution where one has a distribution, got "
                f"neither for {self.place(token)}; give it a distribution, or leave them all out"
            )
            error.keys = self.keys(token)
            raise error
        return whole & (self.lengths > 0)

    def numbers(self, tags: Sequence[Tag]) -> list[Ints]:
        """The numbers of the tags of every kind, in the order of the kind.

        Raises
        ------
        InvalidInputError
            If a label is not among ``tags``.
        """
        number = {tag: k for k, tag in enumerate(tags)}
        for kind, (labels, _) in enumerate(self.kinds):
            unknown = [tag for tag in labels if tag not in number]
            if unknown:
                raise InvalidInputError(
                    f"y must hold tags of the tag set ({shown_tags(tags)}), got {unknown[0]!r} in "
                    f"{self.place(int(np.argmax(self.kind == kind)))}; add it to tags or correct the label"
                )
        return [np.array([number[tag] for tag in labels], np.int64) for labels, _ in self.kinds]

    def numbered(self, tags: Sequence[Tag]) -> Labels:
        """The labels by number; tokens without any may have all."""
        from spectrem.models.loglinear import Labels  # which a hidden Markov model does without

        rows = [*self.numbers(tags), np.arange(len(tags))]
        probabilities = [*(shares for _, shares in self.kinds), None]
        values = [
            np.full(len(row), 1 / max(len(row), 1)) if s is None else np.array(s)
            for row, s in zip(rows, probabilities, strict=True)
        ]
        orders = [np.argsort(row) for row in rows]
        starts = offsets_of(np.array([len(row) for row in rows], np.int64))
        kind = np.where(self.kind < 0, len(rows) - 1, self.kind)
        sizes = np.diff(starts)[kind]
        entries = ranges_of(starts[:-1][kind], sizes)
        tables = (
            np.concatenate([row[at] for row, at in zip(one, orders, strict=True)])[entries] for one in (rows, values)
        )
        return Labels(offsets_of(sizes), *tables)

    def _count(self, tokens: Bools) -> Ints:
        """Number of such tokens in every sentence."""
        return np.diff(np.concatenate([[0], np.cumsum(tokens)])[offsets_of(self.lengths)])


def read_labels(
    y: Any, lengths: Ints, tags: Sequence[Tag] | None = None, *, stacked: bool = False, soft: bool = True
) -> TokenLabels:
    """Read the labels of sentences.

    Parameters
    ----------
    y : sequence of (sequence of labels, array of shape (n_tokens, n_tags), or None)
        A label is a tag; a set, list or tuple of those that the token may have; a mapping of tags to probabilities; or
        None, -1, NaN or another missing value. Arrays hold probabilities of ``tags``.
    lengths : ndarray of shape (n_sentences,), int64
    tags : sequence, optional
    stacked : bool
        Whether ``y`` may also be one sequence of the labels of all tokens.
    soft : bool
        Whether tokens may have distributions; if not, the labels of a sentence may be one text, split at spaces.

    Raises
    ------
    InvalidInputError
        If ``y`` has other lengths, a label is not a tag, a collection is empty, or probabilities are negative or do not
        add up to 1.
    """
    listed = as_sentences(y, "y")
    if stacked and len(listed) == lengths.sum() and (len(listed) != len(lengths) or not _is_row(listed)):
        listed = list(PerSentence.cut(listed, lengths))
    if len(listed) != len(lengths):
        raise InvalidInputError(
            f"y must have one entry per sentence ({len(lengths)}), got {len(listed)}; use None for sentences without "
            "labels"
        )
    reader, kind = LabelReader(check_tag, "tag", soft=soft), np.full(int(lengths.sum()), -1, np.int64)
    for number, (start, size) in enumerate(zip(offsets_of(lengths).tolist(), lengths.tolist(), strict=False)):
        entry = listed[number]
        if not hasattr(entry, "__len__") and is_unlabelled(entry):
            continue
        if soft and isinstance(entry, np.ndarray) and entry.ndim == 2:
            if tags is None or entry.shape[1] != len(tags):
                raise InvalidInputError(
                    f"tags must name the columns of distributions in y, got {'none' if tags is None else len(tags)} "
                    f"for the {entry.shape[1]} columns of sentence {number}; set tags"
                )
            labels: Any = [dict(zip(tags, row, strict=True)) for row in entry.tolist()]
        elif isinstance(entry, np.ndarray):
            text = entry.dtype.kind in "UT"  # in which NumPy writes NaN as "nan"
            labels = [None if text and label == "nan" else label for label in entry.tolist()]
        else:
            labels = _split(entry) if isinstance(entry, str) and not soft else entry
        sized = hasattr(labels, "__len__")
        if isinstance(labels, Mapping | set | frozenset | str) or not sized or len(labels) != size:
            raise InvalidInputError(
                f"y must have a label per token of sentence {number} ({size}), got "
                f"{len(labels) if sized else quoted(labels)}; use None for tokens without label"
            )
        kind[start : start + size] = reader.read(labels, partial(_place, number))
    return TokenLabels(kind, [possible(one) for one in reader.kinds], lengths)


def _place(sentence: int, token: int) -> str:
    return f"sentence {sentence}, token {token}"


def possible(kind: Kind) -> Kind:
    """The same labels without those of probability 0."""
    labels, shares = kind
    if shares is None:
        return kind
    kept = [(label, share) for label, share in zip(labels, shares, strict=True) if share > 0]
    return tuple(label for label, _ in kept), tuple(share for _, share in kept)


def _is_row(listed: list[Any]) -> bool:
    """Whether the entries look like sentences of labels."""
    return all(entry is None or isinstance(entry, list | tuple | np.ndarray) for entry in listed)


# ---- columns for constraints ----------------------------------------------------------------------------------------


def heads_per_sentence(heads: Any, n_sentences: int) -> list[Any]:
    """The heads of every sentence, None where there are none.

    Raises
    ------
    InvalidInputError
        If it is not a list with one entry per sentence.
    """
    is_list = hasattr(heads, "__len__") and not isinstance(heads, str | Mapping)
    if not is_list or len(heads) != n_sentences:
        raise InvalidInputError(
            f"heads must have one entry per sentence ({n_sentences}), got {len(heads) if is_list else quoted(heads)}; "
            "use None for sentences without heads"
        )
    return list(heads)


class Crossing:
    """Heads of sentences made to fit trees without crossing arcs, as the parameter ``crossing`` says, and how many.

    Attributes
    ----------
    n_lifted : int
        Heads that were changed.
    skipped : list of int
        The sentences to be left out.
    """

    def __init__(self, way: str) -> None:
        self._way, self._n_forgotten = way, 0
        self.n_lifted, self.skipped = 0, list[int]()

    def without_crossing(self, heads: Ints, number: int) -> Ints:
        """The heads of a sentence, lifted if they must be; all unknown if it is to be left out.

        Raises
        ------
        InvalidInputError
            Naming the sentence, by its key, too, if crossing arcs are an error.
        """
        if is_projective(heads):
            return heads
        if self._way == "raise":
            raise _refused(
                number,
                "must fit a tree without crossing arcs, but fit none; repair them, or give "
                f"{setting('crossing', 'lift')} or {setting('crossing', 'skip')}",
            )
        if self._way == "skip":
            self.skipped.append(number)
            return np.full_like(heads, UNKNOWN_HEAD)
        lifted = projectivise(heads)
        self.n_lifted += int((lifted != heads).sum())
        self._n_forgotten += int(((lifted == UNKNOWN_HEAD) & (heads != UNKNOWN_HEAD)).sum())
        return lifted

    def weights(self, given: Floats) -> Floats:
        """The weights of sentences, 0 for those that are left out."""
        return np.where(np.isin(np.arange(len(given)), self.skipped), 0.0, given)

    def warn(self) -> None:
        """Warn once if heads were given up: lifting usually finds other heads, and skipping was asked for."""
        if self._n_forgotten:
            warn(
                f"{self._n_forgotten} heads count as not known since their arcs cross others and their heads have no "
                f"known head to take; {setting('crossing', 'skip')} leaves such sentences out"
            )


def check_single_root(heads: Ints, lengths: Ints, present: Bools) -> None:
    """Refuse sentences that are present of which the heads of all words, shape (n_tokens,), have several roots.

    Raises
    ------
    InvalidInputError
        Naming the first of them, by its key, too.
    """
    n_roots = np.diff(np.append(0, np.cumsum(heads == ROOT))[offsets_of(lengths)])
    several = np.flatnonzero((n_roots > 1) & present)
    if len(several):
        raise _refused(
            int(several[0]),
            f"must have one word under the root, got {n_roots[several[0]]}; repair them, or "
            f"{advice('several roots', 'set single_root=False')}",
        )


def _refused(number: int, problem: str) -> InvalidInputError:
    """An error about the heads of a sentence, which commands name by its place."""
    error = InvalidInputError(f"heads{advice('of sentence', f' of sentence {number}')} {problem}")
    error.keys = {"sentence": number}
    return error


def read_sentence_columns(columns: Any, lengths: Ints, taken: Collection[str], *, arcs: bool = True) -> Columns:
    """Columns as arrays, in which values that are missing are so however they are spelled.

    Parameters
    ----------
    columns : mapping of name -> sequence, or None
        For every sentence a value, a sequence of a value per word or, with ``arcs``, a matrix of a value per arc.
    lengths : ndarray of shape (n_sentences,), int64
    taken : collection of str
        Names that constraints have already.
    arcs : bool
        Whether constraints speak of arcs: they then name columns of words with "head_" and "dependent_" before the
        name.

    Raises
    ------
    InvalidInputError
        If it is not such a mapping, a name is taken, or there is not one value for each.

    Examples
    --------
    >>> found = read_sentence_columns({"genre": ["news", None], "case": [["nom", "acc"], [None]]}, np.array([2, 1]), ())
    >>> found.of_sentences["genre"].tolist(), found.of_words["case"].tolist()
    (['news', nan], ['nom', 'acc', nan])
    """
    if columns is not None and not isinstance(columns, Mapping):
        raise InvalidInputError(f"columns must map names to values, got {quoted(columns)}; give a dictionary")
    forms = "a value, a sequence of values of its words, or a matrix of its arcs," if arcs else "a value, or a sequence"
    by_axes: tuple[dict[str, Any], ...] = ({}, {}, {})
    for name, values in (columns or {}).items():
        if not {name, f"head_{name}", f"dependent_{name}"}.isdisjoint(taken):
            raise InvalidInputError(f"columns must not be called {name!r}, which constraints have already; rename it")
        listed = [] if isinstance(values, str | Mapping) or not hasattr(values, "__iter__") else list(values)
        if len(listed) != len(lengths):
            raise InvalidInputError(
                f"columns[{name!r}] must have one entry per sentence ({len(lengths)}), got "
                f"{len(listed) or quoted(values)}; give {forms} for each"
            )
        pieces = [_as_array(entry) for entry in listed]
        n_axes = {piece.ndim for piece in pieces} or {0}
        if len(n_axes) > 1 or max(n_axes) > 1 + arcs:
            raise InvalidInputError(
                f"columns[{name!r}] must have entries of one kind, got arrays of {sorted(n_axes)} axes; give {forms} "
                "for each sentence"
            )
        (axes,) = n_axes
        for number, (piece, length) in enumerate(zip(pieces, lengths.tolist(), strict=True)):
            if piece.shape != (length,) * axes:
                rule = (
                    f"shape {(length,) * axes} for sentence {number}, got {piece.shape}; matrices are [dependent, "
                    "head], with arcs from the root on the diagonal"
                    if arcs
                    else f"a value per token of sentence {number} ({length}), got {len(piece)}; give one for each"
                )
                raise InvalidInputError(f"columns[{name!r}] must have {rule}")
        if len({piece.dtype.kind for piece in pieces}) > 1:  # which NumPy would write as one, such as text
            pieces = [piece.astype(object) for piece in pieces]
        flat = np.concatenate([piece.ravel() for piece in pieces]) if pieces else np.zeros(0)
        by_axes[axes][name] = as_column(name, flat)
    return Columns(*by_axes)


def token_columns(columns: Any, lengths: Ints, taken: Collection[str]) -> dict[str, Key]:
    """Columns for constraints as a value per token: those given with sentences are repeated."""
    named = read_sentence_columns(columns, lengths, taken, arcs=False)
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    return {**{name: values[sentence] for name, values in named.of_sentences.items()}, **named.of_words}


def check_tree_values(constraints: Any, tags: Mapping[str, Collection[Any]], columns: Columns) -> None:
    """Refuse constraints on trees that name a tag which there is not, or a value that no word, arc or sentence has.

    Parameters
    ----------
    constraints : as in `check_values`
    tags : mapping of name -> collection
        All tags of words, by the names of the columns.
    columns : Columns
        Of all sentences.
    """
    ends = ("head", "dependent")
    for name, values in tags.items():
        for end in ends:
            check_values(constraints, f"{end}_{name}", values, hint=MAY_BE_EMPTY)
            check_spelling(constraints, f"{end}_{name}", values)
    of_words = {f"{end}_{name}": values for name, values in columns.of_words.items() for end in ends}
    check_columns(constraints, {**columns.of_sentences, **of_words, **columns.of_arcs})


def _as_array(values: Any) -> NDArray:
    """Values of a sentence as an array, of objects unless they are one already: NumPy would write NaN as text."""
    plain = values.tolist() if isinstance(values, np.ma.MaskedArray) else values
    return plain if isinstance(plain, np.ndarray) else np.asarray(plain, object)
