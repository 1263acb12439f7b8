#!/usr/bin/env bash
# Runs the rolling, worker and chat suites on fleets of two versions: programs of a base revision
# ("old") and of the working tree ("new"), in every pairing of edges, projectors and workers.
#
#   scripts/mixed.sh <base>
#
#   OLD=dir        use the programs tailrace, agent and e2e.test of the base in dir; missing ones are built there
#   PAIRINGS=re    run only the pairings whose line matches the extended regular expression
#
# A list such as old:old:new:new gives the version of each start in turn, and is repeated from its start:
# two edges start as old and are restarted as new. The tests and their writers are new.
set -euo pipefail
cd "$(dirname "$0")/.."
base=$(git rev-parse --verify "${1:?usage: scripts/mixed.sh <base>}^{commit}")
export GOFLAGS="${GOFLAGS:--buildvcs=false -trimpath}"
work=$(mktemp -d)
trap 'rm -rf "$work/source" "$work/old" "$work/new"; rmdir "$work" 2>/dev/null || true' EXIT # keeps the logs of failures

build() { # <tree> <directory>: builds the missing programs
  mkdir -p "$2"
  [ -x "$2/tailrace" ] || (cd "$1" && go build -o "$2/tailrace" ./cmd/tailrace)
  [ -x "$2/agent" ] || (cd "$1/examples/chat" && go build -o "$2/agent" ./agent)
  [ -x "$2/e2e.test" ] || (cd "$1" && go test -c -tags e2e -o "$2/e2e.test" ./e2e)
}

old=$(realpath -m "${OLD:-$work/old}")
new=$work/new
if ! [ -x "$old/tailrace" ] || ! [ -x "$old/agent" ] || ! [ -x "$old/e2e.test" ]; then
  mkdir "$work/source"
  git archive "$base" | tar -x -C "$work/source"
  build "$work/source" "$old"
fi
build . "$new"
go test -c -tags e2e -o "$new/chat.test" ./e2e/chat

programs() { # <list of versions> <program>: prints the paths
  local version paths=""
  for version in ${1//:/ }; do
    case $version in
      old) paths+=":$old/$2" ;;
      new) paths+=":$new/$2" ;;
      *) echo "mixed: version is $version, want old or new" >&2; exit 2 ;;
    esac
  done
  echo "${paths#:}"
}

times() { # <n> <version>: prints a list with the version n times
  local list="" i
  for ((i = 0; i < $1; i++)); do list+=":$2"; done
  echo "${list#:}"
}

saved=projector/fold/snapshot.go # has the version of the snapshots that a build saves
ran=0
failed=0
# run <pairing> <edges> <projectors> <workers> <directory> <test binary> <tests>
run() {
  if [ -n "${PAIRINGS:-}" ] && ! [[ $1 =~ $PAIRINGS ]]; then return; fi
  local log="$work/$ran.log" start=$SECONDS result=ok
  ran=$((ran + 1))
  if ! (
    export TAILRACE_E2E_EDGE TAILRACE_E2E_PROJECTOR TAILRACE_E2E_AGENT TAILRACE_E2E_TEST_WORKER
    TAILRACE_E2E_EDGE=$(programs "$2" tailrace)
    TAILRACE_E2E_PROJECTOR=$(programs "$3" tailrace)
    TAILRACE_E2E_AGENT=$(programs "$4" agent)
    TAILRACE_E2E_TEST_WORKER=$(programs "$4" e2e.test)
    cd "$5" && "$new/$6" -test.run "$7" -test.v -test.timeout 10m
  ) >"$log" 2>&1 || ! grep -q '^--- PASS' "$log"; then
    result=FAIL
    failed=$((failed + 1))
  fi
  printf '%-4s %s  %ss\n' "$result" "$1" $((SECONDS - start))
  if [ $result = FAIL ]; then
    grep -E -- '--- FAIL|_test\.go:[0-9]+:|^panic|^FAIL' "$log" | head -40 || true
    echo "     full log: $log"
  else
    rm "$log"
  fi
}

for edges in old:old:new:new new:new:old:old old:new:new:old old new; do
  run "rolling  edges $edges" "$edges" new new e2e e2e.test '^TestRollingRestart$'
done

for workers in "8 old, then new" "8 new, then old" "old:new" "old" "new"; do
  list=$workers
  if [[ $workers =~ ^8\ (.*),\ then\ (.*)$ ]]; then
    list=$(times 8 "${BASH_REMATCH[1]}"):$(times 100 "${BASH_REMATCH[2]}")
  fi
  run "workers  workers $workers" new new "$list" e2e e2e.test '^TestWorkersAreKilled$'
done
for workers in old:new new:old; do
  run "frozen   workers $workers" new new "$workers" e2e e2e.test '^TestAFrozenWorkerIsFenced$'
done

for edges in old new; do
  for projectors in old new; do
    for workers in old new; do
      run "chat     edges $edges  projectors $projectors  workers $workers" "$edges" "$projectors" "$workers" e2e/chat chat.test '^TestChat$/^ai7$'
    done
  done
done
# A process that is killed may be restarted in the other version. A projector leaves snapshots of a newer version as they are (docs/snapshots.md), so it is
# restarted in the older one only if both versions save the same.
run "chat     edges old:new  projectors old:new  workers old:new" old:new old:new old:new e2e/chat chat.test '^TestChat$/^ai7$'
projectors=old:new
if [ "$(git show "$base:$saved" | grep '^const Version = ')" = "$(grep '^const Version = ' "$saved")" ]; then projectors=new:old; fi
run "chat     edges new:old  projectors $projectors  workers new:old" new:old "$projectors" new:old e2e/chat chat.test '^TestChat$/^ai7$'

echo "$ran pairings of $(git rev-parse --short "$base") and the working tree in ${SECONDS}s, $failed failed"
[ $failed -eq 0 ] && [ $ran -gt 0 ]
