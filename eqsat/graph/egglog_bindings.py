"""The compiled part of egglog, `bindings`, without its Python front end: that imports a formatter of Python and more,
which takes several times as long, and nothing here uses it.

>>> bindings.__name__
'egglog.bindings'

Who imports `egglog` in the same process gets the same bindings, before or afterwards.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType

NAME = "egglog.bindings"


def _loaded() -> ModuleType:
    """The bindings that this process has, or has from now on."""
    package = find_spec("egglog")
    places = None if package is None else package.submodule_search_locations
    spec = PathFinder.find_spec(NAME, places) if places and NAME not in sys.modules else None
    if spec is None or spec.loader is None:
        return import_module(NAME)  # it is there, or says itself what is missing
    made = module_from_spec(spec)
    spec.loader.exec_module(made)
    return sys.modules.setdefault(NAME, made)  # another thread may have imported all of egglog meanwhile


bindings = _loaded()
