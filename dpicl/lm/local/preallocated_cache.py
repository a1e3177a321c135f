"""A cache of keys and values that grows into columns that it has allocated, so that a step copies only what is new."""

from __future__ import annotations

from typing import Any

import torch
from transformers import DynamicLayer

ROOM = 32
"""Columns that a cache grows by at once: everything is copied every so many tokens, not at each."""


class PreallocatedCacheLayer(DynamicLayer):
    """One layer of a transformers cache: keys and values of shape (rows, heads, columns, width)."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._stores: list[torch.Tensor] = []

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Append columns to all rows."""
        new = (key_states, value_states)
        if not self.is_initialized:
            self.lazy_initialization(*new)
            self._stores = [states[:, :, :0] for states in new]
        start = self.get_seq_length()
        stop = start + key_states.shape[2]
        if stop > self._stores[0].shape[2]:
            for index, store in enumerate(self._stores):
                wider = store.new_empty((*store.shape[:2], stop + ROOM, store.shape[3]))
                wider[:, :, :start] = store[:, :, :start]
                self._stores[index] = wider
        for store, states in zip(self._stores, new, strict=True):
            store[:, :, start:stop] = states
        self.keys, self.values = (store[:, :, :stop] for store in self._stores)
        return self.keys, self.values

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep these rows."""
        if self._stores:
            stop = self.get_seq_length()
            self._stores = [store[indices] for store in self._stores]
            self.keys, self.values = (store[:, :, :stop] for store in self._stores)

    @property
    def column_bytes(self) -> int:
        """Of one column of one row."""
        return sum(store[:1, :, :1].nbytes for store in self._stores)
