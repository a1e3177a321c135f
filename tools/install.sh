#!/bin/sh
# Install what a lock file names, every file's digest checked: sh tools/install.sh .venv/bin/python requirements.lock
#
# Two pips work beside each other, each on every other package. Torch comes by itself: with digests pip prefers PyPI's build to the one
# without an accelerator, which is gigabytes smaller.
set -eu
python=$1
lock=$2
parts=$(mktemp -d)
other=
told=
trap 'kill $other $told 2>/dev/null || true; rm -rf "$parts"' EXIT
trap 'exit 130' INT TERM HUP

install() {
    "$python" -m pip install --quiet --disable-pip-version-check --progress-bar on --no-compile --no-deps --require-hashes "$@"
}

torch() {
    installed=$("$python" -c 'import importlib.metadata; print(importlib.metadata.version("torch"))' 2>/dev/null || true)
    [ "torch==${installed%+*}" != "$version" ] || return 0
    set --
    # the lock has the digest of PyTorch's build for processors of one kind
    if [ "$(uname -sm)" = "Linux x86_64" ] && [ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ]; then
        set -- --retries 0 --extra-index-url https://download.pytorch.org/whl/cpu
    fi
    if "$python" -m pip download --quiet --disable-pip-version-check --no-deps --dest "$parts" "$@" "$version"; then
        install --no-index --find-links "$parts" -r "$parts/torch.txt" && return 0
    fi
    install -r "$parts/torch.txt"
}

awk -v parts="$parts" '
    /^[a-z]/ { part = /^torch==/ ? "torch" : "half-" (count++ % 2) }
    { print > (parts "/" part ".txt") }
' "$lock"
version=$(grep -o '^torch==[^ ]*' "$parts/torch.txt")
site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
all=$(grep -c '^[a-z].*==' "$lock")
(
    seconds=0
    while sleep 4; do
        seconds=$((seconds + 4))
        echo "installing: $(find "$site" -maxdepth 1 -name '*.dist-info' | wc -l) of about $all packages, $seconds s"
    done
) &
told=$!
install -r "$parts/half-0.txt" &
other=$!
failed=0
install -r "$parts/half-1.txt" || failed=1
[ "$failed" = 1 ] || torch || failed=1
wait "$other" || failed=1
other=
[ "$failed" = 0 ] || exit 1
# libraries of an accelerator, where torch's build names some, without digests of ours; all else is there, from the lock
"$python" -m pip check > /dev/null 2>&1 || "$python" -m pip install --quiet --disable-pip-version-check --progress-bar on --no-compile "$version"
