package jsingest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/internal/ingestion"
)

// Events implements ingestion.Writer.
//
// An event with a sequence is the line with that number. One without gets the next number, and its record has a hash of its source and id: an event that is the last
// one of its session is stored, and a batch continues behind the last of its events for which that holds.
func (w *writer) Events(ctx context.Context, events []ingestion.Event) error {
	if len(events) == 0 {
		return nil
	}
	w.events = true
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
	w.appends, w.placed = true, false
	w.wrote = true // a conflict ends the request, and the caller repeats it
	events, err := w.following(ctx, events)
	if err != nil {
		return err
	}
	for i, e := range events {
		w.event = hashOf(e)
		if err := w.Line(ctx, int64(i+1), e.Text); err != nil {
			return err
		}
	}
	return nil
}

// following returns the events that are not stored as a whole. The sub-agent that an event starts may be missing.
func (w *writer) following(ctx context.Context, events []ingestion.Event) ([]ingestion.Event, error) {
	for i, e := range slices.Backward(events) {
		o, _ := ingestion.Outlined(e.Text)
		s, err := w.session(ctx, 0, cmp.Or(o.AgentID, w.of.Session.ID))
		if r, ok := errors.AsType[*ingestion.RefusalError](err); ok && r.Reason == ingestion.ReasonInvalid {
			continue // of a sub-agent that the batch starts
		}
		switch {
		case err != nil:
			return nil, err
		case s.Input.Event != hashOf(e):
		case s.Input.Partial:
			return events[i:], nil
		default:
			return events[i+1:], nil
		}
	}
	return events, nil
}

// hashOf returns an id of an event of 128 bits. Events of different sources may have the same id.
func hashOf(e ingestion.Event) string {
	sum := sha256.Sum256([]byte(e.Source + "\x00" + e.ID))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}
