"""llama.cpp as a user of llama-cpp-python has it, in the peers' environment: no dpicl in here. Jobs
come as lines of JSON, and so do replies.

prompts     One after another, sorted; what a prompt shares with the one before it stays in the
            cache, and is not read again.
voters      Sequences of one context beside each other: all of them read, then a token more of each
            at a time, in one batch.

Threads are as many as processors this process may use. Times are of the wall and of the processor,
in seconds.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from os.path import commonprefix
from typing import Any

import numpy as np

Tokens = list[int]
ROOM = 32
"""Tokens that a voter may grow by."""


class Llama:
    """One GGUF file; `of` is llama_cpp."""

    def __init__(self, file: str) -> None:
        self.of: Any = importlib.import_module("llama_cpp")
        self._held, threads = Tokens(), len(os.sched_getaffinity(0))
        options = {
            "n_threads": threads,
            "n_threads_batch": threads,
            "flash_attn": True,
            "verbose": False,
        }
        self._model = self.of.Llama(file, n_ctx=2048, n_batch=512, **options)

    def prompts(self, prompts: Sequence[Tokens], labels: Tokens) -> dict[str, Any]:
        """Log-probabilities of labels after every prompt, in the prompts' order."""
        self._held, scores = [], {}

        def read() -> None:
            for place in sorted(range(len(prompts)), key=lambda place: prompts[place]):
                scores[place] = self._after(prompts[place], labels)

        return {**_timed(read), "scores": [scores[place] for place in range(len(prompts))]}

    def _after(self, prompt: Tokens, labels: Tokens) -> list[float]:
        kept = min(len(commonprefix([prompt, self._held])), len(prompt) - 1)  # noqa: RUF071, of tokens, not of paths
        self._model.n_tokens = kept
        self._model.eval(prompt[kept:])
        self._held = prompt
        logits = np.ctypeslib.as_array(
            self._model._ctx.get_logits_ith(-1), (self._model.n_vocab(),)
        ).astype(np.float64)
        least = logits.max()
        return [
            float(logits[label] - least - np.log(np.exp(logits - least).sum())) for label in labels
        ]

    def voters(self, voters: Sequence[Tokens], more: Sequence[int]) -> dict[str, Any]:
        """All voters read, and these tokens after each of them, one at a time."""
        most = max(map(len, voters)) + ROOM
        options = self.of.llama_context_default_params()
        options.n_ctx, options.n_batch, options.n_seq_max, options.kv_unified = (
            len(voters) * most,
            512,
            len(voters),
            False,
        )
        options.n_threads = options.n_threads_batch = len(os.sched_getaffinity(0))
        context, batch = (
            self.of.llama_init_from_model(self._model.model, options),
            self.of.llama_batch_init(512, 0, 1),
        )

        def decode(tokens: Sequence[tuple[int, int, int, bool]]) -> None:
            batch.n_tokens = len(tokens)
            for place, (token, position, voter, asked) in enumerate(tokens):
                batch.token[place], batch.pos[place], batch.seq_id[place][0] = (
                    token,
                    position,
                    voter,
                )
                batch.n_seq_id[place], batch.logits[place] = 1, asked
            if self.of.llama_decode(context, batch):
                raise MemoryError("llama.cpp does not decode the batch")

        whole = [
            (token, place, voter, place == len(row) - 1)
            for voter, row in enumerate(voters)
            for place, token in enumerate(row)
        ]

        def begin() -> None:
            for start in range(0, len(whole), 512):
                decode(whole[start : start + 512])

        begun = _timed(begin)
        steps = []
        for step, token in enumerate(more):
            steps.append(
                _timed(
                    lambda: decode(
                        [(token, len(row) + step, voter, True) for voter, row in enumerate(voters)]  # noqa: B023
                    )
                )
            )
        self.of.llama_batch_free(batch)
        self.of.llama_free(context)
        return {"begun": begun, "steps": steps}


def _timed(work: Callable[[], object]) -> dict[str, float]:
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}


def main() -> None:
    """Until the input ends; the reply to no job says that the model is open."""
    llama = Llama(sys.argv[1])
    print(json.dumps({"version": llama.of.__version__}), flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        reply = getattr(llama, job.pop("job"))(**job)
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
