package jsingest

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/ingestion"
)

// Events implements ingestion.Writer.
//
// An event with a sequence is the line with that number. One without gets the next number, and its record has a hash of its source and id: a request that repeats
// the last event that was stored, or a batch with it, continues behind that event. Such a request must not skip what another one has stored meanwhile under the
// same number, so it ends with a conflict, and the caller repeats it.
func (w *writer) Events(ctx context.Context, events []ingestion.Event) error {
	if len(events) == 0 {
		return nil
	}
	root := w.sessions[w.of.Session.ID]
	if events[0].Sequence > 0 {
		next := root.Input.Lines() + 1
		for i, e := range events {
			if i > 0 && e.Sequence <= events[i-1].Sequence { // the second would be stored behind the first
				return invalid(e.Sequence, "sequence: want rising numbers in a batch")
			}
			if e.Sequence > next {
				if err := w.beginNative(ctx, e.Sequence, root.Head); err != nil {
					return err
				}
			}
			next = max(next, e.Sequence+1)
			if err := w.Line(ctx, e.Sequence, e.Text); err != nil {
				return err
			}
		}
		return nil
	}
	w.wrote = true // no second reading, see put
	last := root.Input
	tree, err := w.producer.TreeInput(ctx, root.Session.Tree(), w.of.ID, 0)
	if err != nil {
		return refusal(err)
	}
	if tree.Furthest.Compare(last) > 0 {
		last = tree.Furthest
	}
	events, number := following(events, last)
	for i, e := range events {
		w.event = hashOf(e)
		if err := w.Line(ctx, number+int64(i), e.Text); err != nil {
			return err
		}
	}
	return nil
}

// following returns the events that are not stored yet, and the number of the first of them.
func following(events []ingestion.Event, last codec.InputPosition) ([]ingestion.Event, int64) {
	for i, e := range events {
		switch {
		case last.Event == "" || hashOf(e) != last.Event:
		case last.Partial: // the sub-agent that it starts has no record
			return events[i:], last.Line
		default:
			return events[i+1:], last.Line + 1
		}
	}
	if last.Partial {
		return events, last.Line + 1
	}
	return events, last.Lines() + 1
}

// hashOf returns an id of an event of 128 bits. Events of different sources may have the same id.
func hashOf(e ingestion.Event) string {
	sum := sha256.Sum256([]byte(e.Source + "\x00" + e.ID))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}
