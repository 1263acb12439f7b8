#!/usr/bin/env bash
# Installs Postgres for the tests of the sink if no initdb is on the PATH or where Debian has it. The tests start servers of their own: no service is needed.
set -euo pipefail
present() {
  command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || { command -v pg_config >/dev/null && [ -x "$(pg_config --bindir)/initdb" ]; }
}
if present; then exit 0; fi
if ! command -v apt-get >/dev/null; then
  echo "The tests of the sink need Postgres 13 or later: install it and put initdb and postgres on the PATH." >&2
  exit 1
fi
sudo=""
if [ "$(id -u)" -ne 0 ]; then sudo="sudo"; fi
echo "installing Debian's postgresql for the tests of the sink (once)"
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
$sudo apt-get install -y -qq --no-install-recommends postgresql-common >/dev/null
# Without this the package creates a cluster and starts it as a service.
$sudo sed -ri 's/^#?create_main_cluster *=.*$/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf
$sudo apt-get install -y -qq --no-install-recommends postgresql >/dev/null
present
