"""What a spec means: every rule that relates one key of it to another.

Each module holds the rules about one part and yields (path, message) for each fault it can find. A rule that rests on
another (the guards of a default that is not in its space, say) is tested only where the other holds, so that one slip
is one line.
"""

from __future__ import annotations

import re

from pretuned.errors import Fault
from pretuned.spec.check.arguments import argument_faults, key_faults
from pretuned.spec.check.arrays import shape_value_faults
from pretuned.spec.check.configurations import configuration_faults
from pretuned.spec.check.costs import cost_faults, cost_value_faults
from pretuned.spec.check.defaults import formula_faults, together_faults
from pretuned.spec.check.headers import header_faults
from pretuned.spec.check.implementations import (
    call_faults,
    constraint_faults,
    implementation_faults,
    launch_faults,
    prefix_of,
)
from pretuned.spec.check.launch_bounds import bound_faults
from pretuned.spec.check.let import let_faults
from pretuned.spec.check.names import PathFault, name_faults
from pretuned.spec.check.options import option_faults
from pretuned.spec.check.problems import idle_specialisations, problem_faults, refused_problems
from pretuned.spec.check.promise import default_faults
from pretuned.spec.check.scalars import scalar_value_faults
from pretuned.spec.check.structs import passed_size_faults, struct_faults
from pretuned.spec.check.templates import rendering_faults, template_faults
from pretuned.spec.check.verification import signature_faults, verification_faults
from pretuned.spec.model import KernelSpec


def check(spec: KernelSpec) -> list[Fault]:
    """Return every fault in the meaning of `spec`, in the order of their paths; an empty list says that it is sound."""
    entries = [
        *name_faults(spec),
        *let_faults(spec),
        *key_faults(spec),
        *problem_faults(spec),
        *argument_faults(spec),
        *struct_faults(spec),
        *verification_faults(spec),
        *implementation_faults(spec),
        *formula_faults(spec),
    ]
    for name, implementation in spec.all_implementations.items():
        own = [
            *constraint_faults(spec, implementation),
            *cost_faults(spec, implementation),
            *call_faults(spec, implementation),
        ]
        if implementation.call is None:
            own += [
                *configuration_faults(implementation),
                *launch_faults(spec, implementation),
                *header_faults(spec, implementation),
                *option_faults(implementation.compile.options),
                *template_faults(spec, implementation),
            ]
        entries += [(prefix_of(spec, name) + path, message) for path, message in own]
    entries = entries or list(together_faults(spec))
    if not entries:  # what follows evaluates and renders, and wants every name known
        entries = [
            *refused_problems(spec),
            *idle_specialisations(spec),
            *shape_value_faults(spec),
            *scalar_value_faults(spec),
            *passed_size_faults(spec),
            *default_faults(spec),
            *cost_value_faults(spec),
            *rendering_faults(spec),
            *bound_faults(spec),
            *signature_faults(spec),
        ]
    ordered = sorted(set(entries), key=lambda entry: (_natural(entry[0]), entry[1]))
    return [Fault(file=spec.file, path=path, message=message) for path, message in ordered]


def _natural(path: str) -> list[tuple[int, str]]:
    """Return a key that puts `arguments[2]` before `arguments[10]`."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path)]


__all__ = ["PathFault", "check"]
