"""GPU kernels in Triton, one file for each part of an epoch.

Every kernel serves several runs at once: the last axis of its grid is the run. A run's nodes,
links and weights lie behind those of the run before.
"""

__all__: list[str] = []
