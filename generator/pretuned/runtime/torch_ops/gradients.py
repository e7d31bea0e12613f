"""Autograd around a kernel and the kernel of its gradient: outside of the operators, which know nothing of it.

In eager mode both run round their operators, and under torch.compile both operators stand in the graph.
"""

from __future__ import annotations

from importlib import import_module

from ..errors import ArgumentError, qualified
from ..table import KERNELS, Kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..table import Foreign

torch: Foreign = import_module("torch")


def differentiable(function: Callable[..., Foreign], backward: Callable[..., Foreign], *names: str) -> Foreign:
    """Return the torch.autograd.Function of a kernel; its `apply` takes the arguments that `names` are.

    `backward` is the function of the kernel that computes the gradient. Arguments that are left out are None.
    """
    kernel = KERNELS[function.__name__]
    parts = _Parts(kernel, names)
    kept, kept_results, passed, constant = parts.kept, parts.kept_results, parts.passed, parts.constant
    single = len(parts.gradients) == 1
    of_gradients = _of_gradients(parts, backward, len(names))
    ends = KERNELS[backward.__name__].backward is None

    def forward(*inputs: Foreign) -> Foreign:
        return function(**dict(zip(names, inputs, strict=True)))

    def setup_context(context: Foreign, inputs: Sequence[Foreign], output: Foreign) -> None:
        several = output if isinstance(output, tuple) else (output,)
        context.save_for_backward(*[inputs[place] for place in kept], *[several[place] for place in kept_results])
        context.passed = [inputs[place] for place in passed]
        if constant:
            context.mark_non_differentiable(*[several[place] for place in constant])
        if single and not torch.compiler.is_compiling():  # or zeros are filled in for the constant ones
            context.set_materialize_grads(False)

    def differentiated(context: Foreign, *given: Foreign) -> Foreign:
        """Compute the gradient. Where it has none of its own, a second derivative is an error, and a first is not."""
        if not ends or torch.compiler.is_compiling() or not torch.is_grad_enabled():
            return of_gradients(context, *given)
        with torch.no_grad():
            results = list(of_gradients(context, *given))
        places = [place for place, one in enumerate(results) if one is not None]
        made = [results[place] for place in places]
        last = _LAST.apply(backward.__name__, len(made), *made, *context.saved_tensors, *given) if made else ()
        for place, one in zip(places, last, strict=True):
            results[place] = one
        return tuple(results)

    members = {
        "forward": staticmethod(forward),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(differentiated),
        "__module__": __name__,
    }
    return type(kernel.name, (torch.autograd.Function,), members)


def _make_last() -> Foreign:
    """Return the torch.autograd.Function that hands gradients on, and has none itself.

    It takes the name of the kernel, how many gradients there are, the gradients, and what they were computed from.
    """

    def forward(_kernel: str, count: int, *tensors: Foreign) -> Foreign:
        return tuple([one.view_as(one) for one in tensors[:count]])

    def setup_context(context: Foreign, inputs: Sequence[Foreign], _output: Foreign) -> None:
        context.kernel = inputs[0]

    def backward(context: Foreign, *_given: Foreign) -> Foreign:
        raise ArgumentError(
            f"{qualified(context.kernel)}: is differentiated, and there is no kernel of its gradient; name one in "
            "[backward] of its spec, or leave out create_graph=True"
        )

    members = {
        "forward": staticmethod(forward),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(backward),
        "__module__": __name__,
    }
    return type("Last", (torch.autograd.Function,), members)


_LAST: Foreign = _make_last()


def _of_gradients(parts: _Parts, backward: Callable[..., Foreign], count: int) -> Callable[..., Foreign]:
    """Return what computes the gradients by `count` arguments, by what was kept and the gradients that come in.

    It is traced: what it reads are functions, and tuples of names and places.
    """
    arrays, numbers, gradients, places = parts.arrays, parts.numbers, parts.gradients, parts.places
    strided = tuple(array.name for array in KERNELS[backward.__name__].arrays if array.strides)

    def of_gradients(context: Foreign, *given: Foreign) -> Foreign:
        results: list[Foreign] = [None] * count
        if len(gradients) == 1 and given[gradients[0][1]] is None:
            return tuple(results)
        named = dict(zip(numbers, context.passed, strict=True))
        for name, tensor in zip(arrays, context.saved_tensors, strict=True):
            named[name] = tensor if tensor is None or name in strided else tensor.contiguous()
        for name, place in gradients:
            named[name] = given[place].contiguous()  # of a sum it is one element, expanded
        found = backward(**named)
        several = found if isinstance(found, tuple) else (found,)
        for place, one in zip(places, several, strict=True):
            results[place] = one if context.needs_input_grad[place] else None
        return tuple(results)

    return of_gradients


class _Parts:
    """Where the parts of a gradient's call are found, from the record of the forward kernel.

    Attributes:
        arrays: The names of arrays that were kept, as the gradient's kernel has them.
        kept, kept_results: Where they are among the arguments and the results of the forward call, in that order.
        numbers, passed: The same of numbers and keywords.
        gradients: Names of gradients, with the places of the results that they are of.
        constant: The places of the results whose gradient is not asked for.
        places: Of what the gradient's kernel returns, the places of the arguments that it is the gradient of.
    """

    def __init__(self, kernel: Kernel, names: Sequence[str]) -> None:
        backward: Foreign = kernel.backward
        inputs = [array.name for array in kernel.arrays if array.role != "out"]
        results = [array.name for array in kernel.arrays if array.role != "in"]
        of_inputs = [(name, index) for name, what, index in backward.inputs if what == "input"]
        of_results = [(name, index) for name, what, index in backward.inputs if what == "output"]
        self.arrays = tuple(name for name, _ in (*of_inputs, *of_results))
        self.kept = tuple(names.index(inputs[index]) for _, index in of_inputs)
        self.kept_results = tuple(index for _, index in of_results)
        self.numbers = tuple(name for name, _ in backward.passed)
        self.passed = tuple(names.index(name) for _, name in backward.passed)
        self.gradients = tuple((name, index) for name, what, index in backward.inputs if what == "gradient")
        wanted = {index for _, index in self.gradients}
        self.constant = tuple(index for index in range(len(results)) if index not in wanted)
        self.places = tuple(names.index(inputs[index]) for _, index in backward.outputs)


def recorded(*arrays: Foreign) -> bool:
    """Return whether autograd records what is computed from these, which may be lists, or left out."""
    if not torch.is_grad_enabled():
        return False
    for array in arrays:
        several = array if isinstance(array, (list, tuple)) else (array,)
        for tensor in several:
            if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
                return True
    return False


def refuse_gradients(kernel: str, /, **arrays: Foreign) -> None:
    """Raise ArgumentError for an argument that requires a gradient, where there is none for it."""
    for name, array in arrays.items():
        if recorded(array):
            raise ArgumentError(
                f"{qualified(kernel)}: {name}: requires a gradient, and this kernel has none for it; pass "
                f"{name}.detach(), or call under torch.no_grad()"
            )


def refuse_outputs(kernel: str, /, **outputs: Foreign) -> None:
    """Raise ArgumentError for an output that a call brings, where autograd is to record what is written into it."""
    for name, output in outputs.items():
        if output is not None:
            raise ArgumentError(
                f"{qualified(kernel)}: {name}: an output cannot be given where an input requires a gradient; leave it "
                "out, or call under torch.no_grad()"
            )
