"""Servers of models that others wrote, on this machine, with SmolLM2; tests that need one are
skipped where it is not installed.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from dpicl.ground.cache import cache_folder
from dpicl.models.local.gguf_file import SMOLLM2, gguf_file, gguf_folder

PEERS = Path(__file__).parents[2] / ".venv-peers" / "bin" / "python"
PATIENCE = 300
"""Seconds until a server is up: on a busy machine it is long in coming."""


@dataclass(frozen=True)
class RealServer:
    """One that runs: its address, the model's name, and where it writes what it was asked."""

    url: str
    model: str
    log: Path

    def answered(self) -> int:
        """Requests that it has answered in full, as it says itself."""
        return sum(
            "POST /v1" in line and '" 200' in line for line in self.log.read_text().splitlines()
        )


def smollm2() -> Path:
    """The model's GGUF file. Skips where it has not been fetched."""
    if not (cache_folder("models", SMOLLM2.sha256) / Path(SMOLLM2.file).name).exists():
        pytest.skip("SmolLM2 is not here; expected `dpicl model fetch smollm2` to have been run")
    return gguf_file(SMOLLM2.id)


def smollm2_folder() -> Path:
    """The same as transformers reads it."""
    smollm2()
    return gguf_folder(SMOLLM2.id)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def llama_cpp(file: Path, log: Path, port: int = 0) -> Iterator[RealServer]:
    """llama-cpp-python's, with keys and values in float32."""
    if (
        not PEERS.exists()
        or subprocess.run(
            [PEERS, "-c", "import llama_cpp.server.app"], check=False, capture_output=True
        ).returncode
    ):
        pytest.skip("llama-cpp-python is not here; expected `make peers` to have been run")
    port = port or free_port()
    options = {
        "model": file,
        "model_alias": "smollm2",
        "n_ctx": 1024,
        "n_threads": 1,
        "n_threads_batch": 1,
        "type_k": 0,
        "type_v": 0,
    }
    command = [
        str(PEERS),
        "-m",
        "llama_cpp.server",
        "--verbose",
        "false",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    with _running(
        [
            *command,
            *(str(part) for name, value in options.items() for part in (f"--{name}", value)),
        ],
        port,
        "/v1/models",
        log,
    ):
        yield RealServer(f"http://127.0.0.1:{port}/v1", "smollm2", log)


@contextmanager
def transformers_serve(folder: Path, log: Path) -> Iterator[RealServer]:
    """`transformers serve`, in float32."""
    if not all(
        importlib.util.find_spec(name) for name in ("openai", "accelerate", "fastapi", "uvicorn")
    ):
        pytest.skip(
            "`transformers serve` cannot run; expected the packages of transformers[serving]"
        )
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "transformers.cli.transformers",
        "serve",
        str(folder),
        "--device",
        "cpu",
        "--dtype",
        "float32",
    ]
    with _running([*command, "--host", "127.0.0.1", "--port", str(port)], port, "/health", log):
        yield RealServer(f"http://127.0.0.1:{port}/v1", str(folder), log)


@contextmanager
def _running(command: Sequence[str], port: int, healthy: str, log: Path) -> Iterator[None]:
    with (
        log.open("a") as file,
        subprocess.Popen(
            command, stdout=file, stderr=file, env={**os.environ, "HF_HUB_OFFLINE": "1"}
        ) as process,
    ):
        try:
            started = time.monotonic()
            while not _answers(f"http://127.0.0.1:{port}{healthy}"):
                assert process.poll() is None, log.read_text()[-2000:]
                assert time.monotonic() < started + PATIENCE, "the server does not start"
                time.sleep(0.5)
            yield
        finally:
            process.kill()


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except OSError:
        return False
    return True


def in_float32(file: Path, target: Path) -> Path:
    """The same GGUF file with all weights written out: what it has for transformers, which reads
    nothing else.
    """
    from gguf import GGUFReader, GGUFValueType, GGUFWriter, dequantize

    reader = GGUFReader(file)
    fields = {name: field for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    writer = GGUFWriter(target, fields.pop("general.architecture").contents())
    for name, field in fields.items():
        kind = field.types[0]
        of = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
        writer.add_key_value(
            name, 0 if name == "general.file_type" else field.contents(), kind, sub_type=of
        )
    for tensor in reader.tensors:
        writer.add_tensor(
            tensor.name,
            np.ascontiguousarray(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32),
        )
    for write in (
        writer.write_header_to_file,
        writer.write_kv_data_to_file,
        writer.write_tensors_to_file,
        writer.close,
    ):
        write()
    return target
