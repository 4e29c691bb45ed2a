"""Corpora of constituency trees: the Wall Street Journal's and its sample, a user's parses, the generated grammar."""

from core.data.treebanks.berkeley_parses import BERKELEY_PARSES
from core.data.treebanks.grammar import GRAMMAR_TREES
from core.data.treebanks.sample import TREEBANK_SAMPLE
from core.data.treebanks.treebank import Treebank
from core.data.treebanks.wsj import WSJ

__all__ = ["BERKELEY_PARSES", "GRAMMAR_TREES", "TREEBANK_SAMPLE", "WSJ", "Treebank"]
