#!/usr/bin/env bash
# Lists the packages whose tests need neither a NATS server nor a browser: those
# whose test binary links neither.
set -euo pipefail
go list -test -f '{{range .Deps}}{{$.ImportPath}} {{.}}{{"\n"}}{{end}}' ./... | awk '
  $1 !~ /\.test$/ { next }
  { tested[$1] = 1 }
  $2 ~ /^github\.com\/(nats-io\/nats-server|chromedp)\// || $2 ~ /\/internal\/testkit\/(natstest|browsertest)( |$)/ { outside[$1] = 1 }
  END { for (p in tested) if (!(p in outside)) { sub(/\.test$/, "", p); print p } }' | sort
