"""The tuned RMS norm as a layer of PyTorch."""

import torch

import layers.tuned.torch as tuned


class RMSNorm(torch.nn.Module):
    """x / sqrt(mean(x ** 2) + eps) * weight along the last dim, as torch.nn.RMSNorm computes it."""

    def __init__(self, cols: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = torch.nn.Parameter(torch.ones(cols))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the norm of every row of x, whose last dim is that of the weight."""
        y, _ = tuned.rms_norm(x, self.weight, self.eps)
        return y
