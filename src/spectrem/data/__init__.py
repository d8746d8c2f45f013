"""Texts, bitexts, alignments, tagged text and treebanks: arrays, readers and writers."""

from spectrem.data.alignments import pharaoh_lines, read_both_links, read_links, write_pharaoh, write_shared_task
from spectrem.data.bilingual import FactoredBitext, prior_lines, read_dictionary, read_priors, split_factors
from spectrem.data.bitext import Bitext, encode_bitext
from spectrem.data.features import FeatureIndex, mention_features, pair_features, token_features
from spectrem.data.links import MAX_LENGTH, Links
from spectrem.data.pairs import EncodedPairs, read_bitext, read_pairs
from spectrem.data.raw.segmented import SegmentedText, encode_segmented, links_of_words, segment_lines
from spectrem.data.reading import display_name, read_bytes
from spectrem.data.relations import RelationSentence, read_relations, write_relations
from spectrem.data.symmetrize import Symmetrization, symmetrize
from spectrem.data.table_file import TableFile
from spectrem.data.table_formats import open_table, read_table
from spectrem.data.tagging.tagged import FileSentences, TaggedCorpus, read_sentences, read_tagged, write_tagged
from spectrem.data.tagging.tagged_dictionary import read_tag_dictionary, write_tag_dictionary
from spectrem.data.tagging.tagsets import PENN_TO_17, PENN_TO_UNIVERSAL, map_tags
from spectrem.data.text import Text, tokenise
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
from spectrem.data.vocabulary import UNKNOWN, Vocabulary
from spectrem.data.writers import open_output, write_lines

__all__ = [
    "MAX_LENGTH",
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
    "complete_trees",
    "conserved_arcs",
    "copy_with_trees",
    "display_name",
    "encode_bitext",
    "encode_segmented",
    "is_projective",
    "links_of_words",
    "map_tags",
    "mention_features",
    "one_to_one",
    "open_output",
    "open_table",
    "pair_features",
    "pharaoh_lines",
    "prior_lines",
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
