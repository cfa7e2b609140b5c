"""What speaks for a link, that a person can check."""

from cgcl.evidence.evidence import Evidence, evidence_of
from cgcl.evidence.explain import explained
from cgcl.evidence.messages import RestsOn, rests_on

__all__ = ["Evidence", "RestsOn", "evidence_of", "explained", "rests_on"]
