"""Configuration: the project's table, and the environment that goes before it."""

from pretuned.config.project import Mode, ModuleTable, Project, build_project, on_host
from pretuned.config.settings import HOST, Settings, Where, overlay, read_settings

__all__ = [
    "HOST",
    "Mode",
    "ModuleTable",
    "Project",
    "Settings",
    "Where",
    "build_project",
    "on_host",
    "overlay",
    "read_settings",
]
