#!/usr/bin/env bash
# Writes docs/transcript.md: runs the commands of that page against tailrace up, and records their output.
# The nats command line and the CloudEvents SDK read messages of Tailrace. Builds the nats command in a
# module of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
natscli=v0.4.0
work=$(mktemp -d)
trap 'kill "${up:-}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT

nats=${NATS_CLI:-.tools/nats-$natscli}
if [ ! -x "$nats" ]; then
  mkdir -p .tools
  (cd "$work" && go mod init transcript >/dev/null 2>&1 && GOFLAGS=-mod=mod go get "github.com/nats-io/natscli/nats@$natscli" >/dev/null 2>&1 &&
    GOFLAGS=-mod=mod go build -o nats github.com/nats-io/natscli/nats)
  cp "$work/nats" "$nats"
fi
go build -o "$work/tailrace" ./cmd/tailrace
go build -o "$work/receiver" ./examples/receiver

"$work/tailrace" up --data-dir "$work/data" --demo=off >"$work/up.log" 2>&1 &
up=$!
until grep -q http:// "$work/up.log"; do kill -0 $up; sleep 0.1; done

cat >"$work/chunks.jsonl" <<'JSON'
{"type":"text_delta","agentId":"s1","agentType":"assistant","timestamp":1700000000000,"step":1,"delta":"Grüße "}
{"type":"tool_start","agentId":"s1","agentType":"assistant","timestamp":1700000000100,"step":1,"toolCallId":"c1","toolName":"weather","arguments":{"city":"Bern"}}
{"type":"tool_end","agentId":"s1","agentType":"assistant","timestamp":1700000000200,"step":1,"toolCallId":"c1","toolName":"weather","result":{"celsius":21},"providerExecuted":true}
{"type":"text_delta","agentId":"s1","agentType":"assistant","timestamp":1700000000300,"step":1,"delta":"aus Bern."}
JSON

show() { # <command>: prints it and its output
  printf '\n```console\n$ %s\n' "$1"
  (cd "$work" && PATH="$work:$PATH" bash -c "$1") 2>&1 | sed -e 's/[[:space:]]*$//' -e "s#$work#.#g"
  printf '```\n'
}
cp "$nats" "$work/nats"
{
  echo '# Transcript: other tools read the log'
  echo
  echo "\`scripts/transcript.sh\` wrote this page: it ran these commands against \`tailrace up\`. \`nats\` is natscli $natscli; \`receiver\` is [examples/receiver](../examples/receiver/main.go), which links"
  echo "the CloudEvents SDK and no package of Tailrace."
  show 'tailrace publish --session s1 < chunks.jsonl'
  show 'nats --server 127.0.0.1:4422 stream subjects TR_CHUNKS_0'
  show 'nats --server 127.0.0.1:4422 stream get TR_CHUNKS_0 2'
  show 'nats --server 127.0.0.1:4422 stream get TR_CHUNKS_0 -S tr.chunks.0.default.s1.s1'
  show 'receiver nats://127.0.0.1:4422 tr.chunks.0.default.s1.s1'
} >docs/transcript.md
cat docs/transcript.md
