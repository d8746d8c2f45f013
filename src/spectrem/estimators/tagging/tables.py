"""How a tagger numbers words and tags, what users fix of its tables, and the tables that training starts from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from spectrem._arrays import Bools, Floats, Ints
from spectrem.corpus import Corpus
from spectrem.data import Vocabulary
from spectrem.estimators.sentences import (
    LabelledText,
    Tag,
    Word,
    check_tag,
    check_tags,
    shown_tags,
    sort_tags,
    tag_names,
)
from spectrem.estimators.shared_parameters import table_smoothing
from spectrem.estimators.tagging.parameters import TABLES
from spectrem.exceptions import InvalidInputError
from spectrem.models import tagging
from spectrem.models.shards import count_known
from spectrem.models.tagging import HMMModel, HMMParameters, Lexicon, Names, TagShard
from spectrem.structures import Parts

FIXABLE = ("initial", "transition", "second", "emission")
# defaults of perturbation and of init_smoothing, by start
_NOISE = {"uniform": 0.01, "random": 1.0, "posterior-uniform": 0.0}
_ADDED = {"unambiguous": 1.0, "supervised": 0.1}


# ---- words and tags -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Coding:
    """How a tagger numbers text.

    Attributes
    ----------
    tags : tuple of str or int
        Tag of every state.
    vocabulary : Vocabulary
        Words with emission probabilities of their own; ``unknown`` among them if it stands for others.
    dictionary : mapping of word -> tuple of int
        States of the words that have an entry.
    free : tuple of int
        States of words without an entry.
    unknown : str
    """

    tags: tuple[Tag, ...]
    vocabulary: Vocabulary
    dictionary: Mapping[Word, tuple[int, ...]]
    free: tuple[int, ...]
    unknown: str

    @cached_property
    def lexicon(self) -> Lexicon:
        """Cells of all words; the unknown word has all states, its tokens those of their spelling."""
        words = self.vocabulary.words
        every = tuple(range(len(self.tags)))
        if len(self.free) == len(every) and not any(word in self.dictionary for word in words):
            return Lexicon.full(len(words), len(self.tags))
        allowed = [every if word == self.unknown else self.states(word) for word in words]
        offsets = np.cumsum([0] + [len(states) for states in allowed])
        return Lexicon.from_allowed(offsets, np.array([s for states in allowed for s in states], np.int64), len(every))

    @cached_property
    def names(self) -> Names:
        """The names of tags and words in constraints; words that are their own numbers stay numbers."""
        words = self.vocabulary.words
        spelled = None if words == tuple(range(len(words))) else [str(word) for word in words]
        return Names(tag_names(self.tags), spelled, self.unknown)

    def states(self, word: Word) -> tuple[int, ...]:
        """The states that a word may have."""
        return self.dictionary.get(word, self.free)

    def encode(self, text: LabelledText) -> tuple[Lexicon, Ints]:
        """A lexicon with the entries that a text needs, and the entry of every token.

        Raises
        ------
        InvalidInputError
            If a label is not a tag, or leaves a token without any tag that its word may have.
        """
        known: Mapping[Word, int] = self.vocabulary.index  # type: ignore[assignment]
        # spellings that are not in the vocabulary get the next numbers
        more = {word: len(known) + k for k, word in enumerate(dict.fromkeys(w for w in text.words if w not in known))}
        number = {**known, **more} if more else known
        entries = np.fromiter(map(number.__getitem__, text.words), np.int64, len(text.words))
        label, numbers = text.labels.kind, text.labels.numbers(self.tags)
        stand_in = known.get(self.unknown, -1)
        special = np.flatnonzero((entries >= len(known)) | (label >= 0) | ((entries == stand_in) & (stand_in >= 0)))
        if not len(special):
            return self.lexicon, entries
        keys = entries[special] * (len(numbers) + 1) + label[special] + 1
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        first = special[first]
        of_labels = [tuple(sorted(states.tolist())) for states in numbers]
        allowed = [self._allowed(text, int(t), None if label[t] < 0 else of_labels[label[t]]) for t in first]
        words = np.where(entries[first] < len(known), entries[first], stand_in)
        lexicon, new_entries = self.lexicon.with_entries(words, allowed)
        entries[special] = new_entries[inverse]
        return lexicon, entries

    def _allowed(self, text: LabelledText, token: int, labels: tuple[int, ...] | None) -> tuple[int, ...]:
        possible = self.states(text.words[token])
        if labels is None:
            return possible
        both = tuple(state for state in labels if state in possible)
        if not both:
            error = InvalidInputError(
                f"labels must agree with the dictionary, got {shown_tags([self.tags[s] for s in labels])} for "
                f"{text.words[token]!r} in {text.labels.place(token)}, which may be "
                f"{shown_tags([self.tags[s] for s in possible])}; add the tag to the word's entry or correct the label"
            )
            error.keys = text.labels.keys(token)
            raise error
        return both


def learn_coding(tagger: Any, text: LabelledText) -> Coding:
    """Number the tags and words of a training text as the settings of an HMMTagger say.

    Raises
    ------
    InvalidInputError
        If nothing says which tags there are, tags repeat or contradict ``n_states``, or an entry of the dictionary is
        empty, no list or names an unknown tag.
    """
    listed = {word: _entry(word, entry) for word, entry in (tagger.dictionary or {}).items()}
    names = _tags(
        tagger.tags, tagger.n_states, [*listed.values(), *(tags for tags, _ in text.labels.kinds)], bool(listed)
    )
    number = {tag: state for state, tag in enumerate(names)}
    for word, entry in listed.items():
        for tag in entry:
            if tag not in number:
                raise InvalidInputError(
                    f"dictionary must name tags of the tag set ({shown_tags(names)}), got {tag!r} for {word!r}; add it "
                    "to tags or correct the entry"
                )
    states = {word: tuple(sorted(number[tag] for tag in entry)) for word, entry in listed.items()}
    free = states.get(tagger.unknown, tuple(range(len(names))))
    vocabulary = tagger.vocabulary
    if vocabulary is None:
        counts = Counter(text.words)
        vocabulary = [word for word, count in counts.items() if count >= tagger.min_count]
        if len(vocabulary) < len(counts) and tagger.unknown not in vocabulary:
            vocabulary.append(tagger.unknown)
    if not isinstance(vocabulary, Vocabulary):
        vocabulary = Vocabulary(tuple(vocabulary))
    return Coding(names, vocabulary, states, free, tagger.unknown)


def _tags(
    tags: Sequence[Tag] | None, n_states: int | None, named: list[tuple[Tag, ...]], from_dictionary: bool
) -> tuple[Tag, ...]:
    if tags is not None:
        names = check_tags(tags)
    elif named:
        names = sort_tags(tag for entry in named for tag in entry)
    elif n_states is not None:
        return tuple(range(n_states))
    else:
        raise InvalidInputError(
            "n_states must be given when there are neither tags nor a dictionary nor labels; how many tags are there "
            "to find?"
        )
    if n_states is not None and n_states != len(names):
        source = "tags" if tags is not None else "the dictionary and y" if from_dictionary else "y"
        raise InvalidInputError(
            f"n_states must be the number of tags, {len(names)} in {source}, got {n_states}; leave it out, or list all "
            "tags in tags"
        )
    return names


def _entry(word: object, entry: Any) -> tuple[Tag, ...]:
    _check_listed(entry, word, "dictionary must list the tags of every word")
    tags = sort_tags(check_tag(tag, f"dictionary ({word!r})") for tag in entry)
    if not tags:
        raise InvalidInputError(
            f"dictionary must allow every word in it a tag, got an empty entry for {word!r}; add its tags, or leave "
            "the word out: it may then be any"
        )
    return tags


def _check_listed(tags: Any, key: object, rule: str) -> None:
    if isinstance(tags, str) or not hasattr(tags, "__iter__"):
        raise InvalidInputError(f"{rule}, got {tags!r} for {key!r}; write [{tags!r}]")


# ---- tables ---------------------------------------------------------------------------------------------------------


def restrictions(coding: Coding, order: int, fixed: Any, transition_mask: Any) -> dict[str, Floats]:
    """The probabilities that tables keep by ``fixed`` and ``transition_mask`` of a tagger, NaN where they are learned.

    Raises
    ------
    InvalidInputError
        If arrays have the wrong shape or names are not tags, words or tables.
    """
    kept: dict[str, Floats] = {}
    fixed_tables = fixed or {}
    if not isinstance(fixed_tables, Mapping):
        raise InvalidInputError(
            f"fixed must map tables ({', '.join(FIXABLE)}) to their fixed entries, got {type(fixed_tables).__name__}; "
            'write fixed={"transition": array with NaN where free}'
        )
    tables = FIXABLE if order == 2 else tuple(name for name in FIXABLE if name != "second")
    for name, entries in fixed_tables.items():
        if name not in tables:
            raise InvalidInputError(f"fixed must name tables among {', '.join(tables)}, got {name!r}")
        kept[name] = _fixed(coding, order, name, entries)
    if transition_mask is not None:
        impossible = ~_mask(coding, order, transition_mask)
        if order == 2 and impossible.ndim == 2:
            kept["second"] = _forbid(kept.get("second"), impossible, "second")
            impossible = np.repeat(impossible[None], len(impossible), axis=0)
        kept["transition"] = _forbid(kept.get("transition"), impossible, "transition")
    return kept


def by_cell(coding: Coding, emission: Floats) -> Floats:
    """Emissions by cell from a table of shape (n_states, n_words); those by cell stay as they are.

    Raises
    ------
    InvalidInputError
        If the shape is neither.
    """
    lexicon = coding.lexicon
    table = np.asarray(emission, np.float64)
    if table.shape == (lexicon.n_cells,):
        return table
    if table.shape != (lexicon.n_states, lexicon.n_words):
        raise InvalidInputError(
            f"emission must have shape {(lexicon.n_states, lexicon.n_words)}, tags by words of the vocabulary (or "
            f"{(lexicon.n_cells,)}, by cell of the lexicon), got {table.shape}; give vocabulary to fix the words' order"
        )
    return table[lexicon.cell_states, lexicon.cell_words]


def _forbid(kept: Floats | None, impossible: Bools, name: str) -> Floats:
    """The probabilities that a table keeps, with 0 for impossible entries."""
    known = np.full(impossible.shape, np.nan) if kept is None else kept
    clash = impossible & (known > 0)
    if clash.any():
        at = tuple(np.argwhere(clash)[0].tolist())
        raise InvalidInputError(
            f"restrictions.{name}: an impossible entry must not be fixed above 0; got {known[at]:g} at index {at}; "
            "drop one of the two"
        )
    return np.where(impossible, 0.0, known)


def _mask(coding: Coding, order: int, mask: Any) -> Bools:
    n = len(coding.tags)
    if isinstance(mask, Mapping):
        allowed = np.ones((n, n), np.bool_)
        for tag, followers in mask.items():
            row = _state(coding, tag, "transition_mask")
            _check_listed(followers, tag, "transition_mask must list the tags that may follow a tag")
            allowed[row] = False
            allowed[row, [_state(coding, follower, "transition_mask") for follower in followers]] = True
        return allowed
    table = np.asarray(mask)
    shapes: Sequence[tuple[int, ...]] = [(n, n)] if order == 1 else [(n, n), (n, n, n)]
    if table.shape not in shapes or table.dtype != np.bool_:
        raise InvalidInputError(
            f"transition_mask must be a boolean array of shape {' or '.join(map(str, shapes))}, True where a tag may "
            f"follow, or a mapping of tags to their followers, got dtype {table.dtype}, shape {table.shape}"
        )
    return table


def _fixed(coding: Coding, order: int, name: str, entries: Any) -> Floats:
    """The fixed entries of a table, NaN where they are free."""
    n, axes = len(coding.tags), {"initial": 1, "second": 2, "emission": 2}.get(name, order + 1)
    shape, by_word = (n,) * axes, name == "emission"
    if not isinstance(entries, Mapping):
        if by_word:
            return by_cell(coding, entries)
        values = np.array(entries, np.float64)
        if values.shape != shape:
            raise InvalidInputError(
                f"fixed[{name!r}] must have shape {shape}, NaN where free, or map tags to probabilities, got shape "
                f"{values.shape}"
            )
        return values
    values = np.full(coding.lexicon.n_cells if by_word else shape, np.nan)
    for key, value in entries.items():
        names = (key,) if axes == 1 else key
        if not isinstance(names, tuple) or len(names) != axes:
            keys = "keys (tag, word)" if by_word else f"keys of {axes} tags"
            raise InvalidInputError(f"fixed[{name!r}] must have {keys}, got {key!r}; write them as a tuple")
        if not by_word:
            values[tuple(_state(coding, tag, f"fixed[{name!r}]") for tag in names)] = value
        elif len(cell := _cell(coding, *names)):
            values[cell] = value
        elif value != 0:
            raise InvalidInputError(
                f"fixed['emission'] must keep to the dictionary, got {value} for {key!r}, which it forbids; add the "
                "tag to the word's entry"
            )
    return values


def _cell(coding: Coding, tag: Tag, word: Any) -> Ints:
    """The cell of a tag and a word, or none where the dictionary forbids the tag."""
    state, number = _state(coding, tag, "fixed['emission']"), coding.vocabulary.index.get(word)
    if number is None:
        raise InvalidInputError(
            f"fixed['emission'] must name words of the vocabulary, got {word!r}; rare words are {coding.unknown!r}"
        )
    lexicon = coding.lexicon
    cells = np.arange(*lexicon.cell_offsets[number : number + 2])
    return cells[lexicon.cell_states[cells] == state]


def _state(coding: Coding, tag: Tag, where: str) -> int:
    if tag not in coding.tags:
        raise InvalidInputError(f"{where} must name tags of the tag set, got {tag!r}; see tags_ for those there are")
    return coding.tags.index(tag)


def start_parameters(
    tagger: Any, coding: Coding, model: HMMModel, corpus: Corpus, rng: np.random.Generator
) -> HMMParameters:
    """Parameters to start from, within the model's restrictions, as the settings of a tagger say.

    ``corpus`` is one of `TagShard`; sentences with a single label on every token are known.

    Raises
    ------
    InvalidInputError
        If given parameters do not fit the model, or a start from labels finds none.
    """
    init = tagger.init
    if isinstance(init, HMMParameters):
        return model.restrict(given_parameters(init, coding))
    if init is not None and not isinstance(init, str):
        params = transfer(init, coding, model.order, "init")
        # mean-field weights of the same words do not sum to 1, and go on as they are
        continues = not model.restrictions and init.coding_.vocabulary.words == coding.vocabulary.words
        return params if continues else model.restrict(params)
    any_known = init in (None, "supervised") and bool(corpus.sum(count_known))
    if init is None:  # the start that uses most of what is known
        single = np.diff(model.lexicon.entry_offsets) == 1
        some = any_known or (model.n_states > 1 and corpus.sum(_count_single, single))
        init = "supervised" if any_known else "unambiguous" if some else "random"
    if init in _NOISE:
        noise = _NOISE[init] if tagger.perturbation is None else tagger.perturbation
        if init == "uniform":
            return tagging.uniform(model, perturbation=noise, rng=rng)
        if init == "random":
            return tagging.random_counts(model, rng, spread=noise)
        return tagging.posterior_uniform(model, corpus, perturbation=noise, rng=rng)
    added = table_smoothing(TABLES, _ADDED[init] if tagger.init_smoothing is None else tagger.init_smoothing)
    if init == "unambiguous":
        return tagging.unambiguous(model, corpus, smoothing=added)
    if not any_known:
        raise InvalidInputError(
            "init='supervised' must find a sentence whose every token has a single label in y, got none; label "
            "some, or start from another init"
        )
    return tagging.supervised(model, corpus, smoothing=added)


def given_parameters(params: HMMParameters, coding: Coding) -> HMMParameters:
    """Parameters as float64 arrays, emissions by cell."""
    second = None if params.second is None else np.asarray(params.second, np.float64)
    initial, transition = (np.asarray(table, np.float64) for table in (params.initial, params.transition))
    return HMMParameters(initial, transition, second, by_cell(coding, params.emission))


def transfer(tagger: Any, coding: Coding, order: int, name: str) -> HMMParameters:
    """Parameters of a fitted tagger for another numbering of the same tags.

    Words that it does not know are as probable as its unknown word or, if it has none, as its average word.

    Raises
    ------
    InvalidInputError
        If its tags or its order are others.
    """
    known = tagger.coding_
    if set(known.tags) != set(coding.tags) or tagger.params_.order != order:
        raise InvalidInputError(
            f"{name} must be a tagger of order {order} with the tags of this one, got order {tagger.params_.order} and "
            f"{len(known.tags)} tags, of which {len(set(known.tags) & set(coding.tags))} of {len(coding.tags)} are "
            "shared; fit both with the same tags"
        )
    params, lexicon = tagger.params_, known.lexicon
    at = np.array([known.tags.index(tag) for tag in coding.tags])
    emission = np.zeros((len(at), lexicon.n_words + 1))
    emission[:, :-1] = lexicon.table(params.emission)
    stand_in = known.vocabulary.index.get(known.unknown)
    emission[:, -1] = 1.0 / max(lexicon.n_words, 1) if stand_in is None else emission[:, stand_in]
    word = known.vocabulary.lookup(coding.vocabulary.words)
    new = coding.lexicon
    second = None if params.second is None else params.second[np.ix_(at, at)]
    return HMMParameters(
        params.initial[at],
        params.transition[np.ix_(*[at] * (order + 1))],
        second,
        emission[at[new.cell_states], word[new.cell_words]],
    )


def make_reference(
    reference: Any, coding: Coding, model: HMMModel, lengths: Ints
) -> HMMParameters | Callable[[TagShard], Parts] | None:
    """The reference of skewed annealing: parameters, or the log-posteriors of a shard's parts.

    Raises
    ------
    InvalidInputError
        If parameters or posteriors do not fit the model or the text.
    """
    if reference is None:
        return None
    if isinstance(reference, HMMParameters):
        return model.restrict(given_parameters(reference, coding))
    if hasattr(reference, "params_"):
        return model.restrict(transfer(reference, coding, model.order, "reference"))
    posteriors = _stacked(reference, lengths, len(coding.tags))
    return partial(_log_parts, model, posteriors, np.cumsum(lengths) - lengths)


def _log_parts(model: HMMModel, posteriors: Floats, offsets: Ints, shard: TagShard) -> Parts:
    """Logarithms of the posteriors of a shard's parts; sentence n has the rows from ``offsets[n]`` on."""
    starts = offsets[shard.instances] - (np.cumsum(shard.lengths) - shard.lengths)
    token = np.arange(shard.n_tokens) + np.repeat(starts, shard.lengths)
    layout = model.layout(shard)
    with np.errstate(divide="ignore"):
        return Parts(np.log(posteriors[np.repeat(token, np.diff(layout.offsets)), layout.states]))


def _count_single(shard: TagShard, single: Bools) -> int:
    """Tokens whose entry has one state."""
    return int(single[shard.entries].sum())


def _stacked(reference: Sequence[Any], lengths: Ints, n_states: int) -> Floats:
    shapes = [np.shape(matrix) for matrix in reference] if hasattr(reference, "__iter__") else []
    expected = [(int(length), n_states) for length in lengths]
    wrong = next((n for n, pair in enumerate(zip(shapes, expected, strict=False)) if pair[0] != pair[1]), None)
    if len(shapes) != len(expected) or wrong is not None:
        what = f"{len(shapes)} entries" if wrong is None else f"shape {shapes[wrong]} for sentence {wrong}"
        raise InvalidInputError(
            f"reference must be a fitted HMMTagger, HMMParameters, or posteriors of shape (tokens, {n_states}) for "
            f"each of the {len(expected)} sentences, got {what}; predict_proba makes such posteriors"
        )
    stacked = np.concatenate([np.zeros((0, n_states)), *(np.asarray(matrix, np.float64) for matrix in reference)])
    if not ((stacked >= 0) & (stacked <= 1 + 1e-9)).all():
        raise InvalidInputError("reference must hold probabilities in [0, 1]; give posteriors, not logarithms")
    return stacked
