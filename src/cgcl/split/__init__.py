"""What may be seen, and what must be guessed."""

from cgcl.split.audit import Audit, Finding, audit_split
from cgcl.split.negatives import NegativeSampler, degree_negatives
from cgcl.split.split import Split, given_split, random_split, time_split

__all__ = [
    "Audit",
    "Finding",
    "NegativeSampler",
    "Split",
    "audit_split",
    "degree_negatives",
    "given_split",
    "random_split",
    "time_split",
]
