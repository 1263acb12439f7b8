// Package chat has people use the example app, examples/chat, in Debian's
// Chromium: built against both major versions of the AI SDK, served through a
// proxy that can cut connections and counts requests, before edges and agents in
// processes of their own, which are killed. Whatever happens, the page ends with
// what the log says: one bubble for each message, no part twice, and no more
// requests than a person's doing asks for. Build tag e2e.
package chat
