#!/usr/bin/env bash
# Prints the path of a Node.js that the npm packages of the tests accept: the one on the PATH if it is new
# enough, otherwise one that npm installs into .tools. Debian's Node.js is too old, but its npm is sufficient.
set -euo pipefail
oldest=22
version=22.23.3
cd "$(dirname "$0")/.."

if ! command -v npm >/dev/null; then
  if ! command -v apt-get >/dev/null; then
    echo "The tests with the AI SDK need npm: install Node.js $oldest or later and put it on the PATH." >&2
    exit 1
  fi
  sudo=""
  if [ "$(id -u)" -ne 0 ]; then sudo="sudo"; fi
  echo "installing Debian's npm for the tests with the AI SDK (once)" >&2
  export DEBIAN_FRONTEND=noninteractive
  $sudo apt-get update -qq >&2
  $sudo apt-get install -y -qq --no-install-recommends npm >&2
fi

major=$(node --version | sed 's/^v//; s/\..*//')
if [ "$major" -ge "$oldest" ]; then
  command -v node
  exit 0
fi

case "$(uname -s)-$(uname -m)" in
  Linux-x86_64) platform=linux-x64 ;;
  Linux-aarch64) platform=linux-arm64 ;;
  Darwin-x86_64) platform=darwin-x64 ;;
  Darwin-arm64) platform=darwin-arm64 ;;
  *)
    echo "Node.js $major is too old for the AI SDK: put $oldest or later on the PATH." >&2
    exit 1
    ;;
esac
home=$PWD/.tools/node-$version-$platform
if [ ! -x "$home/bin/node" ]; then
  echo "installing Node.js $version into .tools (once)" >&2
  mkdir -p .tools
  unpacked=$(mktemp -d .tools/node-XXXXXX)
  trap 'rm -rf "$unpacked"' EXIT
  npm install --prefix "$unpacked" --no-save --no-audit --no-fund --loglevel=error "node-$platform@$version" >&2
  mv "$unpacked/node_modules/node-$platform" "$home"
fi
echo "$home/bin/node"
