#!/usr/bin/env bash
# govulncheck, where its database can be had. Findings fail; a database that
# cannot be reached is said out loud and is no finding.
set -uo pipefail
version="$1"
out=$(go run "golang.org/x/vuln/cmd/govulncheck@$version" ./... 2>&1)
status=$?
echo "$out"
if [ $status -ne 0 ] && grep -qE 'fetching vulnerabilities|vuln\.go\.dev' <<<"$out" && ! grep -q 'Vulnerability #' <<<"$out"; then
  echo "vuln: NOT CHECKED, the vulnerability database cannot be reached from here"
  exit 0
fi
exit $status
