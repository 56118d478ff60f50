"""Rules over what was read from a table: findings with evidence, cause and remedy."""

from __future__ import annotations

from fullspan.diagnose.rules import RULES, diagnose
from fullspan.diagnose.rules_file import Check, RulesFile
from fullspan.diagnose.thresholds import Thresholds

__all__ = ["RULES", "Check", "RulesFile", "Thresholds", "diagnose"]
