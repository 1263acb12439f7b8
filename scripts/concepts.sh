#!/usr/bin/env bash
# Counts lines, types and mechanisms; with -v also says where they are. Counts another checkout with
#
#   scripts/concepts.sh [-v] [directory]
set -euo pipefail
home=$(cd "$(dirname "$0")/.." && pwd)
flags=()
if [ "${1:-}" = -v ]; then flags+=(-v); shift; fi
program=$(mktemp)
trap 'rm -f "$program"' EXIT
(cd "$home" && go build -buildvcs=false -o "$program" ./scripts/concepts)
cd "${1:-$home}"
"$program" "${flags[@]}"
