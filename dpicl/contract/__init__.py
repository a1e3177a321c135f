"""Contracts: everything public that is known about a data set, in one YAML file."""

from dpicl.contract.declared import Declared
from dpicl.contract.load import load_contract, parse_contract
from dpicl.contract.models import Contract
from dpicl.contract.text import TextContract

__all__ = ["Contract", "Declared", "TextContract", "load_contract", "parse_contract"]
