"""Answers in the user's names."""

from cgcl.predict.harder import evaluate_against
from cgcl.predict.link_predictor import LinkPredictor
from cgcl.predict.links import Links

__all__ = ["LinkPredictor", "Links", "evaluate_against"]
