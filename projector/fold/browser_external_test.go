package fold_test

import (
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/projector/fold"
)

var _ = func() struct{} {
	fold.BrowserForm = func(s fold.Snapshot, partial bool, timestamp int64) fold.Page {
		return pageOf(aisdk.Snapshot(s, aisdk.SnapshotOptions{Partial: partial, Timestamp: timestamp}))
	}
	fold.BrowserPage = func(p *fold.MessagePage) fold.Page { return pageOf(aisdk.Page(p, 0)) }
	return struct{}{}
}()

func pageOf(f aisdk.FrontendSnapshot) fold.Page {
	p := fold.Page{JSON: f.AppendJSON(nil), Cursor: f.StreamSequence, Structured: f.Structured}
	for _, m := range f.Messages {
		p.Messages = append(p.Messages, fold.PageMessage{ID: m.ID, Role: m.Role, Parts: m.Parts})
	}
	return p
}
