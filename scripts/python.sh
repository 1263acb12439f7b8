#!/usr/bin/env bash
# Prints the path of a Python 3.10 or later that can build and install the package in clients/python, and has what its extras need: the one on the PATH, or Debian's, which
# it installs.
set -euo pipefail
needs='import sys, setuptools, pip, venv, wheel, cryptography, fastapi, uvicorn; sys.exit(sys.version_info < (3, 10))'
find_python() {
  for python in python3 /usr/bin/python3; do
    if command -v "$python" >/dev/null && "$python" -W ignore -c "$needs" 2>/dev/null; then
      command -v "$python"
      return 0
    fi
  done
  return 1
}
if find_python; then exit 0; fi
if ! command -v apt-get >/dev/null; then
  echo "The tests of the Python package need Python 3.10 or later with pip, setuptools, wheel, cryptography, fastapi and uvicorn: put it on the PATH." >&2
  exit 1
fi
sudo=""
if [ "$(id -u)" -ne 0 ]; then sudo="sudo"; fi
echo "installing Debian's python3, setuptools, cryptography, FastAPI and uvicorn for the tests of the Python package (once)" >&2
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq >&2
$sudo apt-get install -y -qq --no-install-recommends python3 python3-pip python3-setuptools python3-venv python3-wheel \
  python3-cryptography python3-fastapi python3-uvicorn >&2
find_python
