// Package mastra tests the responses in the dialect of Mastra with Mastra's own packages, pinned: @mastra/client-js reads them, runs the tools of the client and
// assembles a message, and @mastra/ai-sdk converts their chunks to events from which ai assembles a message. The messages must be those of the snapshot.
//
// clients.mjs is one Node process that answers a line of JSON with a line of JSON. The tests install the packages from npm once into .tools; scripts/node.sh
// provides Node. Build tag e2e.
package mastra
