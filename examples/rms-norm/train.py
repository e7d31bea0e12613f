"""Train a network with the tuned RMS norm under torch.compile, and the same one with PyTorch's: `python train.py`."""

import sys

import torch
from layers.modules import RMSNorm

STEPS, ROWS, COLS = 20, 512, 1024
TOLERANCE = 1e-2  # of a loss: both round, in another order


def losses(norm: type[torch.nn.Module]) -> list[float]:
    """Return the losses of a network with a norm, by the same data and the same steps each time."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(64, COLS), norm(COLS, eps=1e-6), torch.nn.SiLU(), torch.nn.Linear(COLS, 1)]
    model = torch.nn.Sequential(*layers).cuda()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    compiled = torch.compile(model, fullgraph=True)
    found = []
    for _ in range(STEPS):
        x = torch.randn(ROWS, 64, device="cuda")
        loss = torch.nn.functional.mse_loss(compiled(x), x.square().mean(dim=1, keepdim=True))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        found.append(loss.item())
    return found


def main() -> int:
    """Print the losses with both; return 1 if they part."""
    if not torch.cuda.is_available():
        sys.exit("train.py needs an NVIDIA GPU")
    apart = 0.0
    for step, (own, theirs) in enumerate(zip(losses(RMSNorm), losses(torch.nn.RMSNorm), strict=True)):
        apart = max(apart, abs(own - theirs) / theirs)
        if step % 5 == 0:
            print(f"step {step}: loss {own:.6f} with the tuned norm, {theirs:.6f} with PyTorch's")
    print(f"largest difference {apart:.1e}")
    return int(not apart < TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
