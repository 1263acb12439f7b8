#!/usr/bin/env bash
# Installs Python 3 for the tests of the examples if it is not on the PATH.
set -euo pipefail
if command -v python3 >/dev/null; then exit 0; fi
if ! command -v apt-get >/dev/null; then
  echo "The tests of the Python examples need Python 3: install it and put it on the PATH." >&2
  exit 1
fi
sudo=""
if [ "$(id -u)" -ne 0 ]; then sudo="sudo"; fi
echo "installing Debian's python3 for the tests of the examples (once)"
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
$sudo apt-get install -y -qq --no-install-recommends python3 >/dev/null
command -v python3 >/dev/null
