package aisdk

import (
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// answerParts folds the log of one session without the removed records, and returns the last answer; the id is empty if there is none.
func answerParts(log []chunk.Record, isRemoved func(i int) bool) (id string, parts []chunk.Value, err error) {
	root := log[0].Session.Tree()
	f := fold.New(root)
	var removed []chunk.OrdinalRange
	for _, rec := range log {
		if rec.Type != chunk.TypeTruncated {
			continue
		}
		c, err := rec.Decode()
		if err != nil {
			return "", nil, err
		}
		b, _ := chunk.As[chunk.Truncated](c)
		removed = append(removed, b.Removed...)
	}
	f.MarkRemoved(removed)
	for i, rec := range log {
		if rec.Session != root || isRemoved(i) {
			continue
		}
		if err := f.Apply(rec); err != nil {
			return "", nil, fmt.Errorf("%s: %w", rec.Type, err)
		}
	}
	messages := Snapshot(f.Snapshot(), SnapshotOptions{Partial: true}).Messages
	if len(messages) == 0 || messages[len(messages)-1].Role != fold.Assistant {
		return "", nil, nil
	}
	last := messages[len(messages)-1]
	return last.ID, last.Parts, nil
}
