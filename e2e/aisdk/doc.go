// Package aisdk has the real AI SDK judge what we send to it: both of its major
// versions, pinned, parse our bytes with their own parser and schema, fold them
// with their own builder and Chat class, and must end with the message that our
// snapshot serves.
//
// judge.mjs is one long-lived Node process per major version that answers a line
// of JSON with a line of JSON. The tests install the packages from npm, once,
// into .tools; Node itself comes from scripts/node.sh. Build tag e2e.
package aisdk
