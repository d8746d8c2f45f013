"""The public names of the library: the API pages are made of them, and a test holds ``__all__`` to them."""

from __future__ import annotations

import inspect
from importlib import import_module
from types import ModuleType

ROOMS: dict[str, tuple[str, str, dict[str, list[str]]]] = {
    "spectrem": (
        "Estimators and projection",
        "What most programs need: estimators in scikit-learn's conventions, the projection of any table of "
        "probabilities, and the words that constraints are written in.",
        {
            "Estimators": [
                *("WordAligner", "HMMTagger", "CRFTagger", "MaxEntClassifier", "GaussianMixture", "DependencyModel"),
                *("EdgeFactoredParser", "BracketingModel", "RelationExtractor", "Views", "SelfTrainer"),
                *("HMM", "GaussianHMM", "GaussianMixtureHMM", "PoissonHMM", "CategoricalHMM", "MultinomialHMM"),
                *("LabelModel", "SequenceLabelModel"),
            ],
            "Projection of probabilities": ["project", "Lattice", "ConstrainedTargets"],
            "Constraints": ["E", "part", "linear", "max_over", "agreement", "fertility"],
            "Models of one's own, and saved ones": ["run_em", "load", "transfer_parser"],
        },
    ),
    "spectrem.constraints": (
        "Constraints",
        "The language of constraints: expressions, named constraints, texts and files, and what they compile to.",
        {
            "Expressions": ["E", "part", "linear", "max_over"],
            "Named constraints": [
                *("agreement", "argument_types", "at_least", "at_least_one_per", "at_most", "cannot_link"),
                *("cluster_size", "dictionary_in_expectation", "fertility", "label_proportions", "must_link", "parity"),
                *("sparsity", "tag_rules", "universal_rules", "UNIVERSAL_RULES"),
            ],
            "Texts and files": ["parse_constraint", "read_constraints", "write_constraints", "ConstraintTextError"],
            "What expressions are": [
                *("AllOf", "Column", "Constraint", "Expectation", "LinearConstraint", "MaxOver", "Slack", "Norm"),
            ],
            "Constraints of one's own": ["CustomConstraint", "Block", "Rows", "compile_constraints"],
        },
    ),
    "spectrem.estimators": (
        "Estimators",
        "The room of the estimators, and what they return beside arrays.",
        {
            "Results": ["LinkPosteriors", "SourcePair", "VoteAnalysis"],
            "Estimators": [
                *("BracketingModel", "CRFTagger", "DependencyModel", "EdgeFactoredParser", "GaussianMixture"),
                *("CategoricalHMM", "GaussianHMM", "GaussianMixtureHMM", "HMM", "MultinomialHMM", "PoissonHMM"),
                *("HMMTagger", "LabelModel", "MaxEntClassifier", "RelationExtractor", "SelfTrainer", "Views"),
                *("SequenceLabelModel", "WordAligner", "load", "transfer_parser"),
            ],
        },
    ),
    "spectrem.emissions": (
        "Emissions",
        "What states of a hidden Markov model emit, with priors and fixed parameters, for `spectrem.HMM`.",
        {
            "Numbers": ["Gaussian", "StudentT", "GaussianMixture"],
            "Counts and categories": ["Poisson", "NegativeBinomial", "Categorical", "Multinomial"],
            "Several, and those of one's own": ["Joined", "Emission"],
        },
    ),
    "spectrem.durations": (
        "Durations",
        "How long states of a hidden Markov model last.",
        {"Names": ["Durations", "Histogram", "Poisson", "NegativeBinomial", "Geometric", "duration_scores"]},
    ),
    "spectrem.tables": (
        "Tables of probabilities",
        "What `project` returns, and what it is like where rows have more than one label.",
        {
            "Names": [
                *("project", "ProjectedTable", "Decision", "ConstraintReport", "Lattice", "ConstrainedTargets"),
                "ScoreError",
            ]
        },
    ),
    "spectrem.reports": (
        "Reports",
        "What constraints did in a fit: objective, violations and prices, as text and as HTML.",
        {"Names": ["FitReport", "ConstraintReport", "ConstraintSummary"]},
    ),
    "spectrem.structures": (
        "Structures",
        "Families of latent structures over a batch of instances: log-partition, marginals, best structures, samples.",
        {
            "Labels and chains": [
                *("Categorical", "Chain", "Chain2", "TiedChain", "TiedChain2", "EdgeChain"),
                *("SemiMarkovChain", "Segmentations"),
                *("TiedCounts", "TiedCounts2"),
            ],
            "Alignments, trees and bracketings": [
                *("Alignment", "ProjectiveTrees", "NonProjectiveTrees", "ValenceTrees", "Bracketings"),
            ],
            "Combinations": ["Product", "Known", "full_agreement"],
            "What all have": ["Structure", "Differentiable", "Parts", "Polytope", "NULL", "ROOT"],
            "Functions": ["entropy", "n_best", "sample"],
        },
    ),
    "spectrem.inference": (
        "Inference",
        "The projection of a batch onto constraints, and the solvers of its dual.",
        {
            "Projection": ["project_batch", "Projection", "Status", "LinearProgram"],
            "Solvers": [
                *("Solver", "Solution", "Accelerated", "Bracket", "FixedStep", "Newton", "QuasiNewton", "Spectral"),
                "Subgradient",
            ],
        },
    ),
    "spectrem.learning": (
        "Learning",
        "EM, ascent and learning in small steps for models of one's own; schedules, stopping and records.",
        {
            "Runs": ["run_em", "run_ascent", "run_online", "FitResult", "FitStatus", "Record"],
            "E-step": ["EStep", "Expectations", "Posteriors", "Posed", "PosedCorpus", "Step"],
            "Schedules": ["Schedule", "Constant", "Anneal", "Quench", "Stepwise", "SmallSteps", "Stopping"],
            "Protocols": ["Model", "Kernel"],
        },
    ),
    "spectrem.corpus": (
        "Homes of corpora",
        "Where shards live: in memory, in mapped files, on a cluster of Dask.",
        {"Names": ["Corpus", "Local", "Spilled", "OnDask", "connect", "fold", "stream"]},
    ),
    "spectrem.data": (
        "Readers and writers",
        "Readers and writers of the field's formats, and what they hold.",
        {
            "Bitext and links": [
                *("Bitext", "FactoredBitext", "SegmentedText", "Text", "Links", "Symmetrization", "read_bitext"),
                *("read_pairs", "EncodedPairs", "read_links", "read_both_links", "read_dictionary", "read_priors"),
                *("symmetrize", "encode_bitext", "split_factors", "segment_lines", "tokenise", "links_of_words"),
                "one_to_one",
                *("pharaoh_lines", "write_lines", "write_pharaoh", "write_shared_task"),
            ],
            "Tagged text": [
                *("TaggedCorpus", "FileSentences", "read_sentences", "read_tagged", "read_tag_dictionary", "map_tags"),
                *("write_tagged", "write_tag_dictionary", "PENN_TO_17", "PENN_TO_UNIVERSAL"),
            ],
            "Trees": [
                *("ParsedSentence", "read_conllu", "write_conllu", "copy_with_trees", "complete_trees"),
                *("conserved_arcs", "is_projective", "projectivise", "ROOT", "UNKNOWN_HEAD"),
            ],
            "Relations": ["RelationSentence", "read_relations", "write_relations"],
            "Votes": ["read_weak_items", "read_weak_columns", "read_weak_sentences", "WeakItems", "WeakSentences"],
            "Tables and bytes": ["read_table", "TableFile", "read_bytes"],
            "Features": [
                *("FeatureIndex", "Vocabulary", "token_features", "mention_features", "pair_features", "UNKNOWN"),
            ],
        },
    ),
    "spectrem.datasets": (
        "Generated data",
        "Small corpora with their true structure, made from a seed.",
        {
            "Names": [
                *("make_bitext", "make_tagged_corpus", "make_treebank", "make_bracketed_corpus"),
                *("GeneratedBitext", "GeneratedTagging", "GeneratedBrackets"),
            ]
        },
    ),
    "spectrem.metrics": (
        "Measures",
        "Measures of alignments, taggings, chunks, trees, bracketings and relations, and tests of differences.",
        {
            "Alignments": [
                *("alignment_scores", "AlignmentScores", "expected_f1_threshold", "reliability", "Reliability"),
            ],
            "Taggings": [
                *("tagging_accuracy", "many_to_one", "one_to_one", "v_measure", "mutual_information", "tag_entropy"),
                *("posterior_entropy", "cross_entropy", "average_l1_linf", "ambiguous_tokens", "correct_tokens"),
                *("compare_taggings", "TaggingComparison", "StateMapping", "LabelScores"),
            ],
            "Chunks and relations": [
                *("chunk_scores", "find_chunks", "Chunk", "ChunkCounts", "ChunkScores"),
                *("relation_scores", "RelationScores"),
            ],
            "Trees and brackets": [
                *("attachment_scores", "AttachmentScores", "compare_attachments", "head_is_next", "not_punctuation"),
                *("bracket_scores", "BracketScores", "compare_bracketings", "BracketingComparison", "binary_ceiling"),
                "branching",
            ],
            "Tests": ["sign_test", "SignTest"],
        },
    ),
    "spectrem.plotting": (
        "Figures",
        "Figures of fits, constraints, posteriors and trees (needs the extra ``plot``).",
        {
            "Names": [
                *("plot_objective", "plot_violations", "plot_prices", "plot_posteriors", "plot_clusters"),
                *("plot_reliability", "plot_trees", "draw_panels", "Panel", "Line", "COLOURS", "save_figure"),
                *("plot_states", "plot_transitions"),
            ]
        },
    ),
    "spectrem.testing": (
        "Checks of what users write",
        "Checks of structures, models, constraints and homes of corpora of one's own, and slow obvious oracles.",
        {
            "Names": [
                *("check_structure", "check_model", "check_constraint", "check_corpus", "enumerate_structures"),
                *("brute_force_smoothed_max", "BruteForce"),
            ]
        },
    ),
    "spectrem.torch": (
        "Layers for PyTorch",
        "Structured distributions, constrained posteriors and a CRF inside networks (needs the extra ``torch``).",
        {
            "Distributions": [
                *("LinearChain", "ProjectiveTrees", "NonProjectiveTrees", "Segmentations", "Bracketings", "Alignment"),
                "StructuredDistribution",
            ],
            "Layers": ["CRF", "bio"],
            "Constraints": ["constrained", "Constrained", "posterior_regularisation", "PosteriorRegularisation"],
        },
    ),
    "spectrem.exceptions": (
        "Errors and warnings",
        "The errors that the library raises and the warnings that it issues.",
        {
            "Names": [
                *("SpectremError", "InvalidInputError", "InfeasibleConstraintError", "NotFittedError"),
                *("ConvergenceWarning", "Unconverged", "NoEffectWarning"),
            ]
        },
    ),
}
"""Room -> its title, one sentence about it, and its public names by group."""


def import_room(room: str) -> ModuleType:
    """A room; that of PyTorch with a stand-in for it where it is missing, which serves for pages but not for use."""
    try:
        return import_module(room)
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        from sphinx.ext.autodoc.mock import mock

        with mock(["torch"]):
            module = import_module(room)
        # which would otherwise be those of the stand-in's constructor
        signatures = {value: inspect.signature(value) for value in vars(module).values() if inspect.isclass(value)}
        for value, signature in signatures.items():
            value.__signature__ = signature
        return module


def names_of(room: str) -> list[str]:
    """The public names of a room, sorted."""
    return sorted(name for group in ROOMS[room][2].values() for name in group)
