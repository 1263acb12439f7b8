package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/names"
)

// heads reads the heads of the snapshots of a partition.
type heads struct {
	client *jsclient.Client
	bucket string
}

func (h heads) stream() string { return "KV_" + h.bucket }

// created returns when the bucket was created, or restored from a backup: it knows nothing of sessions before.
func (h heads) created(ctx context.Context) (time.Time, error) {
	state, err := stateOf(ctx, h.client, h.stream())
	return state.Created, err
}

// read returns the headers of the heads of at most 1,000 sessions. A session without a head is not in the map: the leader of the bucket has confirmed that, and each
// tombstone, because a replica may lag. After an error nothing is known of any session.
func (h heads) read(ctx context.Context, sessions []chunk.Session) (map[chunk.Session]jssnapshots.HeadIndex, error) {
	found, unread := make(map[chunk.Session]jssnapshots.HeadIndex, len(sessions)), make(map[string]chunk.Session, len(sessions))
	for _, s := range sessions {
		key, err := names.SnapshotHeadKey(s)
		if err != nil {
			return nil, err
		}
		unread["$KV."+h.bucket+"."+key] = s
	}
	for progress := true; progress && len(unread) > 0; { // a response has only the heads that fit
		var wanted []string
		for subject := range unread {
			wanted = append(wanted, subject)
		}
		_, err := jsclient.Retry(ctx, h.client.Reading(openTimeout), func(ctx context.Context) (uint64, error) {
			return h.client.LastOfEach(ctx, h.stream(), wanted, func(m jsclient.Message) {
				head, ok := headOf(m.Header)
				if s, isUnread := unread[m.Subject]; isUnread && ok && !head.Deleted {
					found[s] = head
					delete(unread, m.Subject)
				}
			})
		})
		if err != nil {
			return nil, fmt.Errorf("heads in %s: %w", h.bucket, err)
		}
		progress = len(unread) < len(wanted)
	}
	for subject, s := range unread {
		m, err := h.client.LastRetry(ctx, openTimeout, h.stream(), subject)
		if errors.Is(err, jsclient.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("head of %s: %w", s, err)
		}
		if head, ok := headOf(m.Header); ok {
			found[s] = head
		}
	}
	return found, nil
}

// headOf returns the header of a head, and false if the message marks a deleted key. Of a malformed head nothing is known but that it is there.
func headOf(h nats.Header) (head jssnapshots.HeadIndex, ok bool) {
	if h.Get("KV-Operation") != "" || h.Get("Nats-Marker-Reason") != "" {
		return head, false
	}
	if index, ok := jssnapshots.ReadIndex(h); ok {
		head = index
	}
	return head, true
}

// stateOf returns the state of a stream.
func stateOf(ctx context.Context, client *jsclient.Client, stream string) (jsclient.State, error) {
	state, err := jsclient.Retry(ctx, client.Reading(openTimeout), func(ctx context.Context) (jsclient.State, error) { return client.State(ctx, stream, "") })
	if err != nil {
		return state, fmt.Errorf("state of %s: %w", stream, err)
	}
	return state, nil
}
