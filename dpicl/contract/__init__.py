"""Contracts: everything public that is known about a data set, in one YAML file."""

from dpicl.contract.load import load_contract, parse_contract
from dpicl.contract.models import Contract

__all__ = ["Contract", "load_contract", "parse_contract"]
