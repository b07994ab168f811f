"""What several tests of the leap engine use."""

from __future__ import annotations

import numpy as np
from scipy import stats


def same_law_p(a, b) -> float:
    """Two samples of counts, binned by the quantiles of both together."""
    edges = np.unique(np.quantile(np.concatenate([a, b]), np.linspace(0, 1, 11)))
    table = np.stack([np.bincount(np.searchsorted(edges, x), minlength=edges.size) for x in (a, b)])
    table = table[:, table.sum(0) > 0]
    return 1.0 if table.shape[1] == 1 else float(stats.chi2_contingency(table).pvalue)
