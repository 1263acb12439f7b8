// Package chat tests the example app, examples/chat, in Chromium: built with
// both major versions of the AI SDK, served through a proxy that can cut
// connections and counts requests, with edges and agents in separate processes
// that the tests kill. In every scenario the page ends with the content of the
// log: one bubble per message, no duplicate parts, and one request per user
// action. Build tag e2e. With the tag record, TestRecordSmoothness measures how
// evenly the page shows an answer.
package chat
