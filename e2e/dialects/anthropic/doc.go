// Package anthropic compares the types of the packages @anthropic-ai/sdk and @anthropic-ai/claude-agent-sdk, pinned, with the cases of codec/anthropic: each member of the
// unions of events, blocks, deltas and messages has a case in codec/anthropic/testdata/streams.txt. A version with a new member fails the test until there is one. Build
// tag e2e.
package anthropic
