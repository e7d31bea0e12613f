"""Locks as JSON, changed by tests: the lines get digests that fit, as if pretuned had written them so."""

from __future__ import annotations

from pretuned.record import canonical


def sealed(document):
    """The document with lines that pretuned takes for its own, as far as they are such."""
    parts = {key: document[key] for key in ("rows", "selections", "skipped") if isinstance(document.get(key), list)}
    found = document | {key: [_sealed(entry) for entry in entries] for key, entries in parts.items()}
    if isinstance(devices := document.get("devices"), dict):
        found["devices"] = {name: _sealed(device) for name, device in devices.items()}
    return found


def _sealed(entry):
    if not isinstance(entry, dict):
        return entry
    return canonical.sealed({key: value for key, value in entry.items() if key != "digest"})
