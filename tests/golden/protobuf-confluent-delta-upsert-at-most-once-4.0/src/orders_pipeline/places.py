"""Folders and URIs among the settings."""

from pathlib import Path


def absolute(folder: str) -> str:
    """A folder or a URI that means the same whatever the working directory becomes."""
    return folder if "://" in folder else str(Path(folder).resolve())


def under(folder: str, name: str) -> str:
    """What has a name in a folder or under a URI."""
    return f"{absolute(folder).rstrip('/')}/{name}"
