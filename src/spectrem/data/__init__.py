"""Texts, bitexts, alignments, tagged text and treebanks: arrays, readers and writers."""

# ruff: noqa: F401 - `__all__` is what is public; the other names are for the library itself

from spectrem.data.bilingual import FactoredBitext, prior_lines, read_dictionary, read_priors, split_factors
from spectrem.data.bitext import Bitext, encode_bitext
from spectrem.data.features import FeatureIndex, mention_features, pair_features, token_features
from spectrem.data.files import display_name, open_output, read_bytes, write_lines
from spectrem.data.links import (
    MAX_LENGTH,
    Links,
    Symmetrization,
    pharaoh_lines,
    read_both_links,
    read_links,
    symmetrize,
    write_pharaoh,
    write_shared_task,
)
from spectrem.data.pairs import EncodedPairs, read_bitext, read_pairs
from spectrem.data.relations import RelationSentence, read_relations, write_relations
from spectrem.data.segmented import SegmentedText, encode_segmented, links_of_words, segment_lines
from spectrem.data.table_file import TableFile, open_table, read_table
from spectrem.data.tagged import (
    PENN_TO_17,
    PENN_TO_UNIVERSAL,
    FileSentences,
    TaggedCorpus,
    map_tags,
    read_sentences,
    read_tag_dictionary,
    read_tagged,
    write_tag_dictionary,
    write_tagged,
)
from spectrem.data.text import UNKNOWN, Text, Vocabulary, tokenise
from spectrem.data.transfer import complete_trees, conserved_arcs, one_to_one
from spectrem.data.treebank import (
    ROOT,
    UNKNOWN_HEAD,
    ParsedSentence,
    copy_with_trees,
    is_projective,
    projectivise,
    read_conllu,
    write_conllu,
)
from spectrem.data.weak import WeakItems, WeakSentences, read_weak_columns, read_weak_items, read_weak_sentences

__all__ = [
    "PENN_TO_17",
    "PENN_TO_UNIVERSAL",
    "ROOT",
    "UNKNOWN",
    "UNKNOWN_HEAD",
    "Bitext",
    "EncodedPairs",
    "FactoredBitext",
    "FeatureIndex",
    "FileSentences",
    "Links",
    "ParsedSentence",
    "RelationSentence",
    "SegmentedText",
    "Symmetrization",
    "TableFile",
    "TaggedCorpus",
    "Text",
    "Vocabulary",
    "WeakItems",
    "WeakSentences",
    "complete_trees",
    "conserved_arcs",
    "copy_with_trees",
    "encode_bitext",
    "is_projective",
    "links_of_words",
    "map_tags",
    "mention_features",
    "one_to_one",
    "pair_features",
    "pharaoh_lines",
    "projectivise",
    "read_bitext",
    "read_both_links",
    "read_bytes",
    "read_conllu",
    "read_dictionary",
    "read_links",
    "read_pairs",
    "read_priors",
    "read_relations",
    "read_sentences",
    "read_table",
    "read_tag_dictionary",
    "read_tagged",
    "read_weak_columns",
    "read_weak_items",
    "read_weak_sentences",
    "segment_lines",
    "split_factors",
    "symmetrize",
    "token_features",
    "tokenise",
    "write_conllu",
    "write_lines",
    "write_pharaoh",
    "write_relations",
    "write_shared_task",
    "write_tag_dictionary",
    "write_tagged",
]
