#!/usr/bin/env bash
# Lists packages with tests, by what their test binaries link:
#   scripts/packages.sh quick    neither a NATS server nor a browser
#   scripts/packages.sh servers  NATS servers: processes, for which the tests wait
#   scripts/packages.sh timed    NATS servers too, and tests that compare times with bounds of a second or less
# The tests of the benchmark are in none: `make nightly` runs them.
set -euo pipefail
timed='^(cmd/tailrace|internal/jscontrol)$'
go list -test -f '{{range .Deps}}{{$.ImportPath}} {{.}}{{"\n"}}{{end}}' ./... | awk -v group="$1" -v timed="$timed" '
  $1 !~ /\.test$/ { next }
  { tested[$1] = 1 }
  $2 ~ /^github\.com\/(nats-io\/nats-server|chromedp)\// || $2 ~ /\/internal\/testkit\/(natstest|browsertest)( |$)/ { outside[$1] = 1 }
  END {
    for (p in tested) {
      sub(/\.test$/, "", p); name = p; sub(/^github\.com\/tailrace\/tailrace\//, "", name)
      if (name ~ /^(internal\/bench|cmd\/tailrace-bench)$/) continue
      if ((!((p ".test") in outside) ? "quick" : name ~ timed ? "timed" : "servers") == group) print p
    }
  }' | sort
