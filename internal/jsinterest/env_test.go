package jsinterest_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jsinterest"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/subjects"
)

var (
	layout subjects.Layout
	alice  = chunk.RootSession("acme", "alice")
	kid    = alice.Child("kid")
	bob    = chunk.RootSession("acme", "bob")
)

// env is a stream that republishes, and a writer.
type env struct {
	t      *testing.T
	js     jetstream.JetStream
	stream string
	next   map[chunk.Session]chunk.Ordinal
}

func newEnv(t *testing.T, js jetstream.JetStream, replicas int) *env {
	t.Helper()
	streamtest.Ensure(t, js, topology.Config{Replicas: replicas, Republish: true})
	return &env{t: t, js: js, stream: layout.Stream(0), next: make(map[chunk.Session]chunk.Ordinal)}
}

// write stores a record as a writer does that tries until it is stored. During an election it may be stored twice.
func (e *env) write(s chunk.Session) uint64 {
	e.t.Helper()
	e.next[s]++
	msg := streamtest.Message(e.t, layout, codec.Envelope{Session: s, Epoch: 1, Ordinal: e.next[s]}, chunk.TextDelta{Delta: "on"})
	var seq uint64
	natstest.Eventually(e.t, "a record to be stored", func(ctx context.Context) error {
		ack, err := e.js.PublishMsg(ctx, msg)
		if err == nil {
			seq = ack.Sequence
		}
		return err
	})
	return seq
}

// lose runs f while the stream republishes nothing: for a follower this is the same as messages that are stored while the leader changes.
func (e *env) lose(f func()) {
	e.t.Helper()
	set := func(republish *jetstream.RePublish) {
		e.t.Helper()
		s, err := e.js.Stream(e.t.Context(), e.stream)
		if err != nil {
			e.t.Fatal(err)
		}
		cfg := s.CachedInfo().Config
		cfg.RePublish = republish
		if _, err := e.js.UpdateStream(e.t.Context(), cfg); err != nil {
			e.t.Fatal(err)
		}
	}
	set(nil)
	f()
	source, live := names.Layout(layout).Live(0)
	set(&jetstream.RePublish{Source: source, Destination: live})
}

// stored returns the sequences of a tree in the log.
func (e *env) stored(root chunk.Session) []uint64 {
	e.t.Helper()
	filter, err := layout.Tree(root)
	if err != nil {
		e.t.Fatal(err)
	}
	var seqs []uint64
	for client := jsclient.New(e.js); ; {
		m, err := client.NextRetry(e.t.Context(), time.Minute, e.stream, filter, last(seqs)+1)
		if errors.Is(err, jsclient.ErrNotFound) {
			return seqs
		}
		if err != nil {
			e.t.Fatal(err)
		}
		seqs = append(seqs, m.Seq)
	}
}

func last(seqs []uint64) uint64 {
	if len(seqs) == 0 {
		return 0
	}
	return seqs[len(seqs)-1]
}

func follower(t *testing.T, nc *nats.Conn) *jsinterest.Follower {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	f, err := jsinterest.New(js, jsinterest.Config{Interval: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// reader is a client of one tree. When its feed reports a gap, it follows the tree again from before the gap, as a client that loads a snapshot.
type reader struct {
	t *testing.T

	mu   sync.Mutex
	got  []uint64 // sorted, each once
	gaps int
	err  error // of the end
}

func follow(t *testing.T, f *jsinterest.Follower, root chunk.Session, after uint64) *reader {
	t.Helper()
	r := &reader{t: t}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		for gap := true; gap; {
			err := r.read(ctx, f, root, after)
			truncated, ok := errors.AsType[*chunk.TruncatedError](err)
			gap = ok && truncated.Reason == chunk.TruncatedGap
			r.mu.Lock()
			if r.err = err; gap {
				r.gaps++
				after = uint64(truncated.After)
			}
			r.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return r
}

func (r *reader) read(ctx context.Context, f *jsinterest.Follower, root chunk.Session, after uint64) error {
	at := after
	for m, err := range f.Open(ctx, f.Scope(root), chunk.Seq(after)) {
		if err != nil {
			return err
		}
		seq := uint64(m.Seq)
		if seq <= at || m.Session.Tree() != root {
			r.t.Errorf("%s: message %d of %s after %d", root, seq, m.Session, at)
		}
		at = seq
		r.mu.Lock()
		if i, ok := slices.BinarySearch(r.got, seq); !ok {
			r.got = slices.Insert(r.got, i, seq)
		}
		r.mu.Unlock()
	}
	return errors.New("the feed ended without an error")
}

// expect waits until the reader has exactly these messages.
func (r *reader) expect(want ...uint64) {
	r.t.Helper()
	natstest.Eventually(r.t, "all messages of the tree", func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !slices.Equal(r.got, want) {
			return fmt.Errorf("got %d messages, want %d; missing %v; %w", len(r.got), len(want), without(want, r.got), cmp.Or(r.err, errOpen))
		}
		return nil
	})
}

var errOpen = errors.New("feed open")

func without(all, some []uint64) []uint64 {
	return slices.DeleteFunc(slices.Clone(all), func(seq uint64) bool {
		_, ok := slices.BinarySearch(some, seq)
		return ok
	})
}

func (r *reader) gapCount() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gaps
}
