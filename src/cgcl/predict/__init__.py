"""Answers in the user's names: a predictor, queries, and what speaks for a link."""

from cgcl.predict.link_predictor import LinkPredictor, evaluate_against
from cgcl.predict.links import Links
from cgcl.predict.query import Query

__all__ = ["LinkPredictor", "Links", "Query", "evaluate_against"]
