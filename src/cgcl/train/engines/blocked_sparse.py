"""Sparse matrices in compressed rows, for products with dense ones."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class CompressedRows:
    """The entries of a sparse matrix, row by row."""

    starts: Tensor
    """Where each row begins in the other two, [rows + 1]."""
    columns: Tensor
    values: Tensor
    num_columns: int

    @classmethod
    def from_sorted(
        cls, row: Tensor, column: Tensor, values: Tensor, shape: tuple[int, int]
    ) -> CompressedRows:
        """Take entries in the order of their rows, int64 and numbers, [entries]."""
        starts = torch.searchsorted(row, torch.arange(shape[0] + 1))
        # MKL counts in 32 bits: numbers of 64 would be converted for each product.
        kind = torch.int32 if max(*shape, row.numel()) < 2**31 else torch.int64
        return cls(starts.to(kind), column.to(kind), values, shape[1])

    def only(self, kept: Tensor) -> CompressedRows:
        """Return the matrix with only those entries that are kept, bool [entries]."""
        places = kept.nonzero().squeeze(1)
        return CompressedRows(
            torch.searchsorted(places, self.starts.long()).to(self.starts.dtype),
            self.columns.index_select(0, places),
            self.values.index_select(0, places),
            self.num_columns,
        )

    def tensor(self) -> Tensor:
        """Return it as torch's sparse tensor."""
        shape = (self.starts.numel() - 1, self.num_columns)
        with warnings.catch_warnings():
            # torch says once that these tensors are young; what is used of them is tested here.
            warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
            return torch.sparse_csr_tensor(
                self.starts, self.columns, self.values, shape, check_invariants=False
            )


class Propagation:
    r"""$\hat A_v$ of one view, $\tilde D^{-1/2} \tilde A \tilde D^{-1/2}$   (Eq. 1)."""

    def __init__(self, edge_index: Tensor, num_nodes: int, dtype: torch.dtype) -> None:
        """Compute the entries, as `cgcl.model.propagate` does.

        Args:
            edge_index: Links without self-links, int64 [2, e], from row 0 to row 1.
            num_nodes: Number of nodes.
            dtype: Of the entries.
        """
        loops = torch.arange(num_nodes)
        self._source = torch.cat([edge_index[0], loops])
        self._target = torch.cat([edge_index[1], loops])
        self._scale = torch.bincount(self._target, minlength=num_nodes).to(dtype).rsqrt()

    def matrix(self) -> Tensor:
        """Return the matrix that takes messages from their source to their target, [n, n]."""
        return self._matrix(self._target, self._source)

    def transposed(self) -> Tensor:
        """Return the matrix for the way back, [n, n]."""
        return self._matrix(self._source, self._target)

    def _matrix(self, row: Tensor, column: Tensor) -> Tensor:
        num_nodes = self._scale.numel()
        codes = (row * num_nodes + column).sort().values
        row, column = codes // num_nodes, codes % num_nodes
        values = self._scale.index_select(0, row) * self._scale.index_select(0, column)
        shape = (num_nodes, num_nodes)
        return CompressedRows.from_sorted(row, column, values, shape).tensor()


def multiply(matrix: Tensor, dense: Tensor, out: Tensor) -> None:
    """Write the product of a matrix in compressed rows and a dense one."""
    torch.addmm(out, matrix, dense, beta=0, out=out)
