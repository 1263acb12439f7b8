package jssnapshots

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/subjects"
)

// HeadState is what a head says about its session, without content.
type HeadState struct {
	Deleted bool      // the head is a tombstone
	Last    chunk.Seq // of the last record that the head has; of a tombstone, the deletion record
	Began   time.Time // when the log stored the first record of the head, since the last deletion; zero if it is not known

	// First is the ordinal of that record: 1, unless the session was deleted or the log had lost the records before.
	First chunk.Ordinal
}

// HeadStates returns the state of the head of at most 1,000 sessions of a partition. A session without a head is not in the map: the leader of the bucket has confirmed that, and
// each tombstone, because a replica may lag. After an error nothing is known of any session.
func (st *Store) HeadStates(ctx context.Context, partition int, sessions []chunk.Session) (map[chunk.Session]HeadState, error) {
	b, err := st.open(ctx, partition)
	if err != nil {
		return nil, err
	}
	states, unread := make(map[chunk.Session]HeadState, len(sessions)), make(map[string]chunk.Session, len(sessions))
	for _, s := range sessions {
		key, err := subjects.SnapshotHeadKey(s)
		if err != nil {
			return nil, err
		}
		unread[b.subject(key)] = s
	}
	for read := true; read && len(unread) > 0; { // a response has only the heads that fit
		var wanted []string
		for subject := range unread {
			wanted = append(wanted, subject)
		}
		_, err := request(ctx, st, func(ctx context.Context) (uint64, error) {
			return st.api.LastOfEach(ctx, b.name, wanted, func(m jsclient.Message) {
				state := headStateOf(m)
				if s, ok := unread[m.Subject]; ok && state != nil && !state.Deleted {
					states[s] = *state
					delete(unread, m.Subject)
				}
			})
		})
		if err != nil {
			return nil, fmt.Errorf("read heads in %s: %w", b.bucket(), err)
		}
		read = len(unread) < len(wanted)
	}
	for subject, s := range unread {
		m, err := st.lastMessage(ctx, b, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", b.key(subject), err)
		}
		if state := headStateOf(m); state != nil {
			states[s] = *state
		}
	}
	return states, nil
}

// headStateOf returns the state in a message of a head, nil if the message marks a deleted key. Of a malformed head nothing is known but that it is there.
func headStateOf(m jsclient.Message) *HeadState {
	if isMarker(m.Header) {
		return nil
	}
	i, ok := readIndex(m.Header)
	if !ok {
		return &HeadState{}
	}
	return &HeadState{Deleted: i.Deleted, Last: i.Seq, Began: timeOf(i.Created), First: max(i.Since, 1)}
}

// Created returns when the bucket of a partition was created: it knows nothing of sessions before.
func (st *Store) Created(ctx context.Context, partition int) (time.Time, error) {
	b, err := st.open(ctx, partition)
	if err != nil {
		return time.Time{}, err
	}
	info, err := st.info(ctx, b, "")
	if err != nil {
		return time.Time{}, err
	}
	return info.Created, nil
}
