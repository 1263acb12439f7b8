package fold

import "github.com/tailrace/tailrace/chunk"

// BrowserForm and BrowserPage are aisdk.Snapshot and aisdk.Page. An external test sets them, because package aisdk imports this
// one.
var (
	BrowserForm func(s Snapshot, partial bool, timestamp int64) Page
	BrowserPage func(p *MessagePage) Page
)

// Page is the part of an aisdk.FrontendSnapshot that the tests check.
type Page struct {
	JSON       []byte
	Cursor     chunk.Seq
	Messages   []PageMessage
	Structured []chunk.Value
}

// PageMessage is an aisdk.UIMessage.
type PageMessage struct {
	ID    string
	Role  Role
	Parts []chunk.Value
}
