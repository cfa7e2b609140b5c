"""What may be seen, and what must be guessed."""

from cgcl.split.audit import audit_split
from cgcl.split.by_time import time_split
from cgcl.split.degree_negatives import degree_negatives
from cgcl.split.findings import Audit, Finding
from cgcl.split.given import given_split
from cgcl.split.negatives import UnlinkedPairs
from cgcl.split.split import Split, random_split

__all__ = [
    "Audit",
    "Finding",
    "Split",
    "UnlinkedPairs",
    "audit_split",
    "degree_negatives",
    "given_split",
    "random_split",
    "time_split",
]
