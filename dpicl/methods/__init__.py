"""One paper, one page: each module reads like the method it implements."""

from types import ModuleType

from dpicl.methods import gdp_tabicl, ldp_tabicl

METHODS: dict[str, ModuleType] = {"ldp_tabicl": ldp_tabicl, "gdp_tabicl": gdp_tabicl}
"""Methods by the name that pipelines.yaml gives them."""
