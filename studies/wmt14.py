"""What the paper's translation scores are about: data set, line count, protocol, budget (sections 5.1, 5.2 and 6).

A score of another line count, protocol or budget is a number about something else, however near it comes.
"""

from __future__ import annotations

from studies.claim import Budget, Identity

# newstest2014 exists with 2,737 lines too; the authors' own download is the long one.
NUM_LINES = {"newstest2013": 3_000, "newstest2014": 3_003}

# Fields of a score's signature (core.scoring.protocol has the whole of them, with the libraries' versions).
PERPLEXITY = "cross-entropy:plain|unit:word-piece"
BLEU = {
    "de": "case:mixed|tok:moses-de|hyphens:plain|compounds:##AT##-##AT##|quotes:kept|smooth:none",
    "fr": "case:mixed|tok:moses-fr|hyphens:aggressive|compounds:whole|quotes:kept|smooth:none",
}

BASE_STEPS, BIG_STEPS = 100_000, 300_000


def identity(split: str, tgt: str, protocol: str, *train_steps: int) -> Identity:
    """Scores of English into `tgt` on one of the news tests, after trainings of these lengths with the paper's batches.

    A batch holds about 25,000 source and 25,000 target pieces (5.1).
    """
    return Identity(
        dataset=f"wmt14/{split}/en-{tgt}",
        num_items=NUM_LINES[split],
        protocol=protocol,
        budgets=tuple(Budget(25_000, 25_000, steps) for steps in train_steps),
    )
