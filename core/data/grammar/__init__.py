"""The embedded corpus `grammar`: English with German and French from a synchronous grammar written for this project.

One derivation (`derivation.py`) is drawn by `sampler.py` and linearised by `english.py`, `german.py` and `french.py`;
the English side carries constituents, dependency arcs and antecedents. The rest of the project needs these names only.
"""

from core.data.grammar.corpus import DEFAULT_SEED, DEFAULT_SIZES, generate_splits
from core.data.grammar.example import LANGUAGES, Example, detokenise

__all__ = ["DEFAULT_SEED", "DEFAULT_SIZES", "LANGUAGES", "Example", "detokenise", "generate_splits"]
