#!/usr/bin/env bash
# Compares the benchmark of a base revision ("old") with the benchmark of the working tree ("new"). Both
# run alternately; each figure is the ratio to the baseline of the same run. Prints both medians and the
# quotient new/old, and marks a figure as "worse" if it is more than 3 % worse.
#
#   scripts/bench-compare.sh <base>
#
#   ROUNDS=5     runs of each version
#   INNER=3      measured rounds inside one run
#   BENCH="..."  names of benchmarks
#   FLAGS="..."  further flags of the benchmark, such as --clients 100
set -euo pipefail
cd "$(dirname "$0")/.."
base=$(git rev-parse --verify "${1:?usage: scripts/bench-compare.sh <base>}^{commit}")
rounds=${ROUNDS:-5}
read -ra names <<<"${BENCH:-publish follow catchup fanout project chat idle}"
read -ra flags <<<"--json --rounds ${INNER:-3} ${FLAGS:-}"
export GOFLAGS="${GOFLAGS:--buildvcs=false -trimpath}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Old revisions have the benchmark in `tailrace bench`, later ones in a command of its own.
build() { # <tree> <version>: writes a script that runs the benchmark
  local package=./cmd/tailrace-bench command=""
  if [ ! -d "$1/cmd/tailrace-bench" ]; then
    package=./cmd/tailrace
    command=bench
  fi
  (cd "$1" && go build -o "$work/$2.bin" "$package")
  printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$work/$2.bin" "$command" >"$work/$2"
  chmod +x "$work/$2"
  if ! grep -q -e '-json' <<<"$("$work/$2" -h 2>&1 || true)"; then
    echo "bench-compare: the benchmark of the $2 version has no --json; choose a later base" >&2
    exit 1
  fi
}

mkdir "$work/source" "$work/runs"
git archive "$base" | tar -x -C "$work/source"
build "$work/source" old
build . new

for ((round = 1; round <= rounds; round++)); do
  for version in old new; do
    echo "round $round of $rounds, $version" >&2
    "$work/$version" "${flags[@]}" "${names[@]}" >"$work/runs/$version.$round.json" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
  done
done
go run ./scripts/benchcompare "$work/runs"
