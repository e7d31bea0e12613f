"""Configuration: the project's table, and the environment that goes before it."""

from pretuned.config.project import Effort, Mode, ModuleTable, Project, build_project
from pretuned.config.settings import GPU, Place, Progress, Settings, is_backend, overlay, place_of, read_settings

__all__ = [
    "GPU",
    "Effort",
    "Mode",
    "ModuleTable",
    "Place",
    "Progress",
    "Project",
    "Settings",
    "build_project",
    "is_backend",
    "overlay",
    "place_of",
    "read_settings",
]
