#!/bin/sh
# Install what a lock file names, every file's digest checked: sh tools/install.sh .venv/bin/python requirements.lock
#
# Two pips work beside each other, each on every other package. Torch comes first and by itself: with digests pip prefers the build of
# an index to one without an accelerator, which is gigabytes smaller.
set -eu
python=$1
lock=$2
parts=$(mktemp -d)
trap 'rm -rf "$parts"' EXIT

install() {
    "$python" -m pip install --quiet --disable-pip-version-check --progress-bar on --no-compile --no-deps --require-hashes "$@"
}

torch() {
    version=$(grep -o '^torch==[^ ]*' "$parts/torch.txt")
    installed=$("$python" -c 'import importlib.metadata; print(importlib.metadata.version("torch"))' 2>/dev/null || true)
    [ "torch==${installed%+*}" != "$version" ] || return 0
    set --
    [ -e /dev/nvidia0 ] || set -- --retries 0 --extra-index-url https://download.pytorch.org/whl/cpu
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps --dest "$parts" "$@" "$version"
    install --no-index --find-links "$parts" -r "$parts/torch.txt"
    # libraries of an accelerator, where torch's build names some
    "$python" -m pip install --quiet --disable-pip-version-check --progress-bar on --no-compile "$version"
}

awk -v parts="$parts" '
    /^[a-z]/ { part = /^torch==/ ? "torch" : "half-" (count++ % 2) }
    { print > (parts "/" part ".txt") }
' "$lock"
install -r "$parts/half-0.txt" &
other=$!
install -r "$parts/half-1.txt"
torch
wait "$other"
