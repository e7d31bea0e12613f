"""The kernel of a kernel's gradient, for the files that make autograd of PyTorch and JAX call it."""

from __future__ import annotations


class Backward:
    """Which kernel computes the gradient, and what each of its arguments is to the forward kernel.

    Attributes:
        kernel: The name of the gradient's kernel.
        inputs: For each array that it is passed, in launch order: its name there, what it is, and where: an "input" or
            an "output" of the forward kernel by its index among these, or the "gradient" of that output.
        outputs: For each array that it writes, in launch order: its name there, and the index of the forward kernel's
            input whose gradient it is. Other inputs have none.
        passed: For each number and keyword that it is handed: its name there, and the forward kernel's name for it.
    """

    __slots__ = ("inputs", "kernel", "outputs", "passed")

    def __init__(
        self,
        kernel: str,
        inputs: tuple[tuple[str, str, int], ...],
        outputs: tuple[tuple[str, int], ...],
        passed: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.kernel, self.inputs, self.outputs, self.passed = kernel, inputs, outputs, passed
