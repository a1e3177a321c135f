"""One paper, one page: each module reads like the method it implements."""

from dpicl.methods import dp_icl, few_shot_generation, gdp_tabicl, ldp_tabicl, mst_tabicl
from dpicl.methods.interface import Method, checked

METHODS: dict[str, Method] = checked(
    {
        "ldp_tabicl": ldp_tabicl,
        "gdp_tabicl": gdp_tabicl,
        "mst_tabicl": mst_tabicl,
        "few_shot_generation": few_shot_generation,
        "dp_icl": dp_icl,
    }
)
"""Methods by the name that pipelines.yaml gives them."""
