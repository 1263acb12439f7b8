package dialects

import (
	"github.com/tailrace/tailrace/codec/agui"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/codec/kortyx"
	"github.com/tailrace/tailrace/codec/mastra"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/projector/fold"
)

var snapshots = map[string]func(dst []byte, c fold.Content) []byte{
	dialect.AGUI:   agui.AppendContent,
	dialect.Kortyx: kortyx.AppendContent,
	dialect.Mastra: func(dst []byte, c fold.Content) []byte {
		return mastra.AppendSnapshot(dst, aisdk.FrontendSnapshot{
			Messages: aisdk.UIMessages(c.Messages), StreamSequence: c.Position.Seq, Status: c.Status, Session: c.Session, Run: c.Run,
			Timestamp: int64(c.Anchor), Before: c.Before,
		})
	},
}

// HasSnapshot reports whether a dialect has a form of snapshots other than that of the edge, which is the AI SDK's.
func HasSnapshot(name string) bool { return snapshots[name] != nil }

// AppendSnapshot appends the state with which a client of a dialect begins, on one line. HasSnapshot must be true for the dialect.
func AppendSnapshot(name string, dst []byte, c fold.Content) []byte { return snapshots[name](dst, c) }
