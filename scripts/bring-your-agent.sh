#!/usr/bin/env bash
# Writes the transcript in docs/bring-your-agent.md: runs its commands against the route of examples/route and tailrace up, and records their output. Needs npm, for
# the AI SDK.
set -euo pipefail
cd "$(dirname "$0")/.."
page=docs/bring-your-agent.md
work=$(mktemp -d)
trap 'kill "${up:-}" "${route:-}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT

node=$(scripts/node.sh)
go build -o "$work/tailrace" ./cmd/tailrace
cp examples/route/*.mjs "$work"
cp e2e/aisdk/packages/7/package.json e2e/aisdk/packages/7/package-lock.json "$work"
npm ci --prefix "$work" --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null

cat >"$work/agents.json" <<'JSON'
{"agents": {"support": {"http": {"url": "http://127.0.0.1:3000/api/chat", "dialect": "aisdk"}}}}
JSON
message() { # <chat> <text>: a message as useChat posts it
  printf '{"id":"%s","trigger":"submit-message","messages":[{"id":"m-1","role":"user","parts":[{"type":"text","text":"%s"}]}]}' "$1" "$2"
}
message hello 'Hello' >"$work/hello.json"
message story 'tell me' >"$work/story.json"

(cd "$work" && PACE=60 exec "$node" server.mjs 3000) >"$work/route.log" 2>&1 &
route=$!
until grep -q http:// "$work/route.log"; do kill -0 $route; sleep 0.1; done
"$work/tailrace" up --data-dir "$work/data" --agents "$work/agents.json" --chat-agent support >"$work/up.log" 2>&1 &
up=$!
until grep -q http:// "$work/up.log"; do kill -0 $up; sleep 0.1; done

show() { # <command>: prints it and its output
  printf '\n```console\n$ %s\n' "$1"
  (cd "$work" && PATH="$work:$PATH" bash -c "$1") 2>&1 | sed -e 's/[[:space:]]*$//' -e "s#$work#.#g" | cat -s
  printf '```\n'
}
cat >"$work/text" <<'SH'
#!/bin/sh
sed -n 's/.*"delta":"\(.*\)"}/\1/p' | tr -d '\n'
echo
SH
chmod +x "$work/text"
{
  sed '/<!-- transcript -->/q' "$page"
  echo
  echo 'The route by itself, and the same message through Tailrace:'
  show 'curl -sN -H "Content-Type: application/json" -d @hello.json http://127.0.0.1:3000/api/chat'
  show 'curl -sN -H "Content-Type: application/json" -d @hello.json http://127.0.0.1:4480/api/chat'
  echo
  echo 'A client that goes away in the middle of the answer, and another one that comes a second later (`text` prints the deltas):'
  show 'timeout 2 curl -sN -H "Content-Type: application/json" -d @story.json http://127.0.0.1:4480/api/chat | text; sleep 1'
  show 'curl -sN http://127.0.0.1:4480/api/chat/story/stream | text'
  echo
  sed -n '/<!-- end of the transcript -->/,$p' "$page"
} >"$work/page.md"
cp "$work/page.md" "$page"
