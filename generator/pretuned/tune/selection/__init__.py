"""Selections: what few configurations take at any problem, which of them ship, and the rule that picks one. Pure."""

from __future__ import annotations

from pretuned.tune.selection.predictor import Predictor
from pretuned.tune.selection.rule import predicted_us, ranking

__all__ = ["Predictor", "predicted_us", "ranking"]
