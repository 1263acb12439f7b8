#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time.
set -euo pipefail
for pkg in $(go list ./...); do
  for target in $(go test -list '^Fuzz' "$pkg" | grep '^Fuzz' || true); do
    echo "== $pkg $target"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$1" "$pkg"
  done
done
