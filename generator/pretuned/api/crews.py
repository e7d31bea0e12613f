"""Who tunes: the devices of this machine, the workers of an executor, or those of a Dask cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from pretuned.config import Place, Project, place_of
from pretuned.errors import DeviceError
from pretuned.fleet.answers import WorkerEvidence, kind_of
from pretuned.fleet.crews import ExecutorCrew, as_future
from pretuned.fleet.machine import devices_here
from pretuned.fleet.tuning import FleetTerms, FleetWork, tune_here, tune_with
from pretuned.fleet.worker import survey, work
from pretuned.record.rows import TunedDevice
from pretuned.tune.events import AnswerRefused, Listener
from pretuned.tune.request import TuningDevice, find_device, label
from pretuned.tune.session import Tuned

COME_S = 60.0  # for the first worker of a cluster
ANSWER_S = 600.0  # for a worker of an executor to say what it has: a queue may have to start one


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuners:
    """What tunes: one device of each kind, as rows name it, and the function that has them all tune."""

    devices: tuple[TuningDevice, ...]
    tune: Callable[[Sequence[FleetWork], FleetTerms], Tuned]


def of_this_machine(place: Place, project: Project, known: Mapping[str, TunedDevice]) -> Tuners:
    """Return what is at a place, which may be every GPU; `known` are the devices of the lock. Raises DeviceError."""
    place = place_of(project, place)
    one = find_device(place, known)
    if one is None:
        raise DeviceError(
            "use `--on host` to try things on this machine's processor: "
            f"there is no {label(place)} here to tune on (`pretuned devices` lists what there is)"
        )
    devices = list(devices_here(place.backend, known, one)) if place.every else [one]
    kinds = {device.name: device for device in reversed(devices)}
    firsts = tuple(kinds[name] for name in dict.fromkeys(device.name for device in devices))
    return Tuners(devices=firsts, tune=partial(_here, devices))


def _here(devices: Sequence[TuningDevice], works: Sequence[FleetWork], terms: FleetTerms) -> Tuned:
    kinds = {work.device.name for work in works}
    return tune_here(works, [device for device in devices if device.name in kinds], terms)


def of_executor(executor: Executor, place: Place, known: Mapping[str, TunedDevice]) -> Tuners:
    """Return the workers of an executor; one of them is asked what all of them have. Raises DeviceError."""
    try:
        found = as_future(executor.submit(survey, place.backend)).result(timeout=ANSWER_S)
    except TimeoutError:
        raise DeviceError(f"no worker of the executor has answered within {ANSWER_S:g} s") from None
    device = _device(found, place, known)
    crew = ExecutorCrew(executor, work)
    return Tuners(
        devices=(device,),
        tune=lambda works, terms: tune_with(works, crew, terms, compilers=_compilers([(device, found)])),
    )


@contextmanager
def of_dask(address: str, place: Place, known: Mapping[str, TunedDevice], listen: Listener) -> Iterator[Tuners]:
    """Yield the workers of the cluster at `address`, by the kinds of devices that they have; raises DeviceError."""
    from pretuned.fleet.dask import DaskCrew, connected  # noqa: PLC0415 - an extra

    with connected(address) as client:
        crew = DaskCrew(client, place.backend)
        chosen = _alike(crew.evidence(COME_S), crew.dismiss, listen)
        kinds = [(_device(found, place, known), found) for found in chosen]
        if not kinds:
            raise DeviceError(f"no worker of the cluster at '{address}' has a {label(Place(backend=place.backend))}")
        compilers = _compilers(kinds)
        crew.lend(compilers.values(), listen)
        try:
            yield Tuners(
                devices=tuple(device for device, _ in kinds),
                tune=lambda works, terms: tune_with(works, crew, terms, compilers=compilers),
            )
        finally:
            crew.withdraw()


def _alike(
    found: Iterable[WorkerEvidence], dismiss: Callable[[str], None], listen: Listener
) -> Iterator[WorkerEvidence]:
    """Yield one worker of each kind of device, of the driver and the compiler that most of its kind have.

    The others are dismissed: rows of one kind must not be of two drivers or compilers.
    """
    by_kind: dict[str, list[WorkerEvidence]] = {}
    for one in found:
        by_kind.setdefault(kind_of(one.device), []).append(one)
    for listed in by_kind.values():
        count = Counter((one.driver, one.compiler, one.version) for one in listed)
        usual, _ = max(count.items(), key=lambda item: (item[1], item[0]))
        for one in listed:
            if (has := (one.driver, one.compiler, one.version)) != usual:
                reason = f"it has driver, compiler and pretuned {' / '.join(has)}, most have {' / '.join(usual)}"
                listen(AnswerRefused(worker=one.worker, kernel="", reason=reason))
                dismiss(one.worker)
        yield next(one for one in listed if (one.driver, one.compiler, one.version) == usual)


def _device(found: WorkerEvidence, place: Place, known: Mapping[str, TunedDevice]) -> TuningDevice:
    """Return a worker's device by the name that rows have for its kind."""
    record, other = found.device, known.get(found.device.name)
    if record.is_gpu and other is not None and not other.is_same_as(record):
        record = replace(record, name=record.qualified_name)
    return TuningDevice(record=record, driver=found.driver, place=Place(backend=place.backend))


def _compilers(kinds: Iterable[tuple[TuningDevice, WorkerEvidence]]) -> dict[str, str]:
    return {device.name: found.compiler for device, found in kinds if found.compiler}
