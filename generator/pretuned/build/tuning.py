"""The tuning that a build does: of the devices of one kind, within the project's budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pretuned.build.usage import of_table, weighed
from pretuned.config import Project, Settings, place_of
from pretuned.diagnostics import Reporter
from pretuned.errors import DeviceError
from pretuned.fleet.machine import devices_here
from pretuned.fleet.tuning import FleetTerms, FleetWork, tune_here
from pretuned.tune.events import Event, Listener, Waiting, innermost
from pretuned.tune.request import TuningDevice, TuningRequest
from pretuned.tune.session import Tuned
from pretuned.tune.workbench import Demands

PATIENCE: Final = 5  # times its budget a build waits for a GPU that other tunings have


def tuned_in_build(
    project: Project,
    settings: Settings,
    wanted: Sequence[TuningRequest],
    device: TuningDevice,
    reporter: Reporter,
    listen: Listener,
) -> tuple[Tuned | None, str]:
    """Tune within the budget; return None and what is wrong where the GPU cannot be used, or is not to be had."""
    waits: list[Event] = []  # of several devices each says so

    def report_waiting(event: Event) -> None:
        if isinstance(innermost(event), Waiting) and not waits:
            waits.append(event)
            limit_s = PATIENCE * project.budget_s
            reporter.info(f"another tuning is using {device.name}; waiting up to {limit_s:g} s for it to end")
        listen(event)

    called = of_table(project, {request.spec.name: request.spec for request in wanted}, reporter)
    try:
        terms = FleetTerms(
            cache_folder=settings.cache,
            budget_s=project.budget_s,
            patience_s=PATIENCE * project.budget_s,
            demands=Demands(
                max_configurations=project.max_configurations,
                max_loss=device.held_to(project.max_loss),
                anew=project.mode == "force",
            ),
            listen=report_waiting,
        )
        work = FleetWork(device=device.at(project.effort), requests=weighed(wanted, called))
        tuned = tune_here([work], _alike(project, settings, device), terms)
    except DeviceError as error:
        return None, str(error)
    return tuned, ""


def _alike(project: Project, settings: Settings, device: TuningDevice) -> list[TuningDevice]:
    """Return the devices that tune for the rows of `device`: it, and others of its kind where nobody named one."""
    if not place_of(project, settings.device).every:
        return [device]
    known = {device.name: device.record}
    return [one for one in devices_here(device.place.backend, known, device) if one.name == device.name]
