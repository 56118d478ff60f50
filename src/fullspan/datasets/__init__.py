"""Tables to try things on. What is bundled is real, small, and free to redistribute."""

from __future__ import annotations

from fullspan.datasets.bundled import GloVe, glove_path, load_glove

__all__ = ["GloVe", "glove_path", "load_glove"]
