// Package ingest tests the ingest of runs through edges that are processes and are killed, and with the SDK of CloudEvents for JavaScript, pinned: what it sends in binary
// and in structured mode, some events twice, must be in the log once. The tests install the package from npm once into .tools; scripts/node.sh provides Node. Build tag e2e.
package ingest
