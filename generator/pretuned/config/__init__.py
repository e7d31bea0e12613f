"""Configuration: the project's table, and the environment that goes before it."""

from pretuned.config.project import Mode, ModuleTable, Project, build_project, load_project
from pretuned.config.settings import Settings, overlay, read_settings

__all__ = [
    "Mode",
    "ModuleTable",
    "Project",
    "Settings",
    "build_project",
    "load_project",
    "overlay",
    "read_settings",
]
