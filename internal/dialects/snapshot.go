package dialects

import (
	"github.com/tailrace/tailrace/codec/agui"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/codec/kortyx"
	"github.com/tailrace/tailrace/codec/mastra"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/projector/fold"
)

// snapshot writes the state with which a client of a dialect begins.
type snapshot struct {
	whole func(dst []byte, s fold.Snapshot, partial bool) []byte
	page  func(dst []byte, p *fold.MessagePage) []byte
}

var snapshots = map[string]snapshot{
	dialect.AGUI: {
		func(dst []byte, s fold.Snapshot, partial bool) []byte {
			return agui.AppendSnapshot(dst, s, agui.SnapshotOptions{Partial: partial})
		},
		agui.AppendPage,
	},
	dialect.Kortyx: {
		func(dst []byte, s fold.Snapshot, partial bool) []byte {
			return kortyx.AppendSnapshot(dst, s, kortyx.SnapshotOptions{Partial: partial})
		},
		func(dst []byte, p *fold.MessagePage) []byte {
			return kortyx.AppendPage(dst, p, kortyx.SnapshotOptions{})
		},
	},
	dialect.Mastra: {
		func(dst []byte, s fold.Snapshot, partial bool) []byte {
			return mastra.AppendSnapshot(dst, aisdk.Snapshot(s, aisdk.SnapshotOptions{Partial: partial, Timestamp: int64(s.Anchor)}))
		},
		func(dst []byte, p *fold.MessagePage) []byte {
			return mastra.AppendSnapshot(dst, aisdk.Page(p, int64(p.Current().Anchor)))
		},
	},
}

// HasSnapshot reports whether a dialect has a form of snapshots other than that of the edge, which is the AI SDK's.
func HasSnapshot(name string) bool { return snapshots[name].whole != nil }

// AppendSnapshot appends the state of a session on one line, with the answer in flight if partial. HasSnapshot must be true for the dialect.
func AppendSnapshot(name string, dst []byte, s fold.Snapshot, partial bool) []byte {
	return snapshots[name].whole(dst, s, partial)
}

// AppendPage is AppendSnapshot with the messages of a page only.
func AppendPage(name string, dst []byte, p *fold.MessagePage) []byte {
	return snapshots[name].page(dst, p)
}
