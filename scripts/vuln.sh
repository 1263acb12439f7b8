#!/usr/bin/env bash
# Runs govulncheck. Findings fail; if the vulnerability database is not reachable, the script prints a
# warning and succeeds.
set -uo pipefail
version="$1"
out=$(go run "golang.org/x/vuln/cmd/govulncheck@$version" ./... 2>&1)
status=$?
echo "$out"
if [ $status -ne 0 ] && grep -qE 'fetching vulnerabilities|vuln\.go\.dev' <<<"$out" && ! grep -q 'Vulnerability #' <<<"$out"; then
  echo "vuln: NOT CHECKED, the vulnerability database is not reachable"
  exit 0
fi
exit $status
