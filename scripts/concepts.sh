#!/usr/bin/env bash
# Counts lines, types and mechanisms of the working tree, or of the checkout in a directory.
#
#   scripts/concepts.sh [-v] [directory]
#
#   -v    print also where each was found
set -euo pipefail
home=$(cd "$(dirname "$0")/.." && pwd)
flags=()
if [ "${1:-}" = -v ]; then flags+=(-v); shift; fi
program=$(mktemp)
trap 'rm -f "$program"' EXIT
(cd "$home" && go build -buildvcs=false -o "$program" ./scripts/concepts)
cd "${1:-$home}"
"$program" "${flags[@]}"
