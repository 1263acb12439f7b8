// Package jscredentials stores revocations and tickets of clients in a key-value bucket, whose messages have a TTL.
//
//	store, err := jscredentials.New(js, jscredentials.Config{})
//	go store.Follow(ctx, set)                                    // all revocations, and then each new one
//	err = store.Revoke(ctx, revocation.Revocation{Tenant: "acme", TokenID: "t1"})
//
// A ticket is spent by compare-and-set on its message: of any number of processes at the same time, at most one gets it.
package jscredentials

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/revocation"
	"github.com/tailrace/tailrace/subjects"
)

// Config configures a Store. The zero Config is ready for production.
type Config struct {
	// Layout names the bucket. All processes of a deployment share it.
	Layout subjects.Layout

	// RetryTimeout limits the retries of one call while the outcome of a write is unknown or the server is unavailable. Defaults to 10 seconds.
	RetryTimeout time.Duration

	// Log gets what Follow cannot read. Defaults to none.
	Log *slog.Logger
}

// Store is the bucket of credentials. It owns no resources; its methods may be called concurrently.
type Store struct {
	api *jsclient.Client
	cfg Config
}

// New returns a Store over js. It sends no request; the bucket must exist when it is used (package topology creates it).
func New(js jetstream.JetStream, cfg Config) (*Store, error) {
	if err := cfg.Layout.Validate(); err != nil {
		return nil, fmt.Errorf("Layout: %w", err)
	}
	cfg.RetryTimeout = cmp.Or(cfg.RetryTimeout, 10*time.Second)
	if cfg.RetryTimeout < 0 {
		return nil, fmt.Errorf("RetryTimeout is %s, want more than 0", cfg.RetryTimeout)
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Store{api: jsclient.New(js), cfg: cfg}, nil
}

// Revoke stores a revocation, or its end if it is Lifted, for revocation.Lifetime. A repetition is stored again, with a later time. Errors wrap
// chunk.ErrInvalid (nothing is sent), chunk.ErrNotStored or chunk.ErrUnknownOutcome: call it again.
func (s *Store) Revoke(ctx context.Context, r revocation.Revocation) error {
	key, err := r.Key()
	if err != nil {
		return fmt.Errorf("revoke: %w", err)
	}
	data, err := r.Encode()
	if err != nil {
		return fmt.Errorf("revoke: %w", err)
	}
	if _, err := s.put(ctx, s.message(key, data, revocation.Lifetime), nil); err != nil {
		return fmt.Errorf("revoke: %w", err)
	}
	return nil
}

// spentGrace is how much longer the note that a ticket is spent stays than the ticket: an attempt to store the ticket that a server or a connection has
// delayed must still find it.
const spentGrace = 2 * time.Minute

// PutTicket stores a ticket for a time of at least a second, after which the server removes it. The id must be random, with at least 128 bits: every client that
// knows it can spend the ticket. Errors wrap chunk.ErrInvalid, chunk.ErrTooLarge, chunk.ErrNotStored or chunk.ErrUnknownOutcome: use another id then.
func (s *Store) PutTicket(ctx context.Context, id string, ticket []byte, ttl time.Duration) error {
	if id == "" || len(ticket) == 0 || ttl < time.Second {
		return fmt.Errorf("ticket: %w: id or content is empty, or ttl is %s, want at least 1s", chunk.ErrInvalid, ttl)
	}
	key := names.TicketKey(id)
	if mine, err := s.claim(ctx, key, s.message(key, ticket, ttl), 0); err != nil {
		return fmt.Errorf("ticket: %w", err)
	} else if !mine {
		return fmt.Errorf("ticket: %w: the id is in use", chunk.ErrNotStored)
	}
	return nil
}

// SpendTicket returns a ticket, once: of any number of callers at the same time, also in other processes, at most one gets it, and every later one
// revocation.ErrNoTicket. The ticket may be spent although SpendTicket returns another error, because a response was lost; no other caller gets it then.
func (s *Store) SpendTicket(ctx context.Context, id string) ([]byte, error) {
	if id == "" {
		return nil, revocation.ErrNoTicket
	}
	key := names.TicketKey(id)
	m, err := s.last(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("spend ticket: %w", err)
	}
	if len(m.Data) == 0 { // none, or the note that it is spent
		return nil, revocation.ErrNoTicket
	}
	ttl, err := time.ParseDuration(m.Header.Get(jetstream.MsgTTLHeader))
	if err != nil {
		return nil, fmt.Errorf("spend ticket: TTL: %w", err)
	}
	mine, err := s.claim(ctx, key, s.message(key, nil, ttl+spentGrace), m.Seq)
	switch {
	case err != nil:
		return nil, fmt.Errorf("spend ticket: %w", err)
	case !mine:
		return nil, revocation.ErrNoTicket
	}
	return m.Data, nil
}

// claim stores msg if the last message of the key has the sequence after, 0 for none, and reports whether msg is the last message now.
func (s *Store) claim(ctx context.Context, key string, msg *nats.Msg, after uint64) (bool, error) {
	_, err := s.put(ctx, msg, &after)
	if !errors.Is(err, jsclient.ErrConflict) {
		return err == nil, err
	}
	// An earlier attempt may have been stored, and its response lost.
	m, err := s.last(ctx, key)
	return err == nil && m.Header.Get(jetstream.MsgIDHeader) == msg.Header.Get(jetstream.MsgIDHeader), err
}

// last returns the last message of a key, the zero Message if there is none. The leader responds, so it is visible once it is stored.
func (s *Store) last(ctx context.Context, key string) (jsclient.Message, error) {
	m, err := s.api.LastRetry(ctx, s.cfg.RetryTimeout, s.stream(), s.subject(key))
	if errors.Is(err, jsclient.ErrNotFound) {
		return jsclient.Message{}, nil
	}
	return m, err
}

// message returns a message with a random id, by which the server recognises a repetition.
func (s *Store) message(key string, data []byte, ttl time.Duration) *nats.Msg {
	return &nats.Msg{
		Subject: s.api.PublishSubject(s.subject(key)), Data: data,
		Header: nats.Header{jetstream.MsgIDHeader: {rand.Text()}, jetstream.MsgTTLHeader: {ttl.String()}},
	}
}

func (s *Store) put(ctx context.Context, msg *nats.Msg, expected *uint64) (uint64, error) {
	return s.api.Put(ctx, jsclient.Put{Msg: msg, Stream: s.stream(), ExpectedSeq: expected, RetryTimeout: s.cfg.RetryTimeout})
}

func (s *Store) stream() string { return "KV_" + names.Layout(s.cfg.Layout).Credentials() }

func (s *Store) subject(key string) string {
	return "$KV." + names.Layout(s.cfg.Layout).Credentials() + "." + key
}
