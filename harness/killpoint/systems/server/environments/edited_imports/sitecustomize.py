"""Imports edited files in the place of an engine's own, which stay as they are.

Python runs this in each process of the engine, because the folder is on the path. It does nothing
unless ``KILLPOINT_EDITED`` names a folder as
:mod:`killpoint.systems.server.environments.edited_engine` makes it. Only the standard library is
needed.
"""

import importlib.machinery
import json
import os
import sys

_EDITED = os.environ.get("KILLPOINT_EDITED", "")


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module as usual, but for the text, and keeps no compiled copy of it."""

    def __init__(self, name, path, text):
        super().__init__(name, path)
        self._text = text

    def get_code(self, fullname):
        return self.source_to_code(self.get_data(self.path), self.path)

    def get_data(self, path):
        with open(self._text if path == self.path else path, "rb") as file:
            return file.read()


class _Finder:
    """Finds the modules of which there is an edited file; leaves all others to those behind it."""

    def __init__(self, files):
        self._files = files

    def find_spec(self, name, path=None, target=None):
        text = self._files.get(name)
        if text is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(name, spec.origin, os.path.join(_EDITED, text))
        return spec


if _EDITED:
    with open(os.path.join(_EDITED, "modules.json"), encoding="utf-8") as listed:
        sys.meta_path.insert(0, _Finder(json.load(listed)))
