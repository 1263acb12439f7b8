package jsmirror

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
)

// A mirror keeps what is deleted at home: the records of a deleted session until they are old, and the record of its deletion only if the mirror got it within two minutes.
// So, if the numbers of messages in both do not prove that nothing was removed, a read compares those of its sessions. Where home has fewer, it takes the first record at home as the first one of the session.

// removal is what home has removed from the beginning of the sessions of a read.
type removal struct {
	through chunk.Seq // the last record in the mirror that was removed; 0 for none
	first   chunk.Seq // a record that home has after it, 0 for none
}

// removed returns what was removed at home.
func (m *mirror) removed(ctx context.Context, filter string) (r removal, err error) {
	have, err := jsclient.Retry(ctx, m.local.Reading(m.timeouts.catchUp), func(ctx context.Context) (jsclient.State, error) { return m.local.State(ctx, m.name, filter) })
	if err != nil || len(have.Subjects) == 0 {
		return removal{}, err
	}
	asking, cancel := context.WithTimeout(ctx, m.timeouts.request)
	defer cancel()
	origin, err := m.home.State(asking, m.name, filter)
	for subject, n := range have.Subjects {
		if err != nil {
			break
		}
		if origin.Subjects[subject] >= n {
			continue
		}
		var through, first chunk.Seq
		through, first, err = m.removedOf(asking, subject)
		r.through, r.first = max(r.through, through), max(r.first, first)
	}
	if err != nil { // not served: home was not lost when it was asked the last time
		return removal{}, awayError{fmt.Errorf("stream %s at home: %w", m.name, err)}
	}
	return r, nil
}

// removedOf is removed for one session. Home has fewer messages of it also after a cleanup, which removes none at the beginning.
func (m *mirror) removedOf(ctx context.Context, subject string) (through, first chunk.Seq, err error) {
	oldest, err := m.home.Next(ctx, m.name, subject, 1)
	if errors.Is(err, jsclient.ErrNotFound) {
		last, err := m.local.Last(ctx, m.name, subject)
		return chunk.Seq(last.Seq), 0, err
	}
	if err != nil || oldest.Seq <= 1 {
		return 0, chunk.Seq(oldest.Seq), err
	}
	switch before, err := m.local.Before(ctx, m.name, subject, oldest.Seq-1); {
	case errors.Is(err, jsclient.ErrNotFound):
		return 0, chunk.Seq(oldest.Seq), nil
	default:
		return chunk.Seq(before.Seq), chunk.Seq(oldest.Seq), err
	}
}

// withoutRemoved returns a range without the records that were removed at home, or the error with which home would refuse it.
func (l *Log) withoutRemoved(ctx context.Context, of chunk.Range) (chunk.Range, error) {
	m := l.of(of.Session)
	if !m.mayHaveRemoved() {
		return of, nil
	}
	filter, err := l.cfg.Layout.Subject(of.Session)
	if of.Tree {
		filter, err = l.cfg.Layout.Tree(of.Session)
	}
	if err != nil {
		return of, err
	}
	r, err := m.removed(ctx, filter)
	switch {
	case err != nil || of.After.Seq >= r.through:
		return of, err
	case of.After.Seq == 0 && r.first == 0:
		return of, fmt.Errorf("session %s: %w", of.Session, chunk.ErrUnknownSession)
	case !of.FromOldest:
		return of, &chunk.TruncatedError{Session: of.Session, Reason: chunk.TruncatedExpired, After: of.After.Seq, FirstSeq: r.first}
	}
	of.After, of.Anchor = chunk.Position{Seq: r.through}, 0
	return of, nil
}
