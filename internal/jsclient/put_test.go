package jsclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

func putEnv(t *testing.T) (*natstest.Server, *Client) {
	t.Helper()
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, MaxMsgSize: 4 << 10}); err != nil {
		t.Fatal(err)
	}
	return srv, New(js)
}

func put(id, subject, data string, expected *uint64) Put {
	msg := nats.NewMsg(subject)
	msg.Data = []byte(data)
	msg.Header.Set(jetstream.MsgIDHeader, id)
	return Put{Msg: msg, Stream: "S", ExpectedSeq: expected, RetryTimeout: 10 * time.Second}
}

// Of many messages with the same expected sequence one is stored; a message that expects that one is stored after it.
func TestPut(t *testing.T) {
	_, c := putEnv(t)
	var all sync.WaitGroup
	stored := make(chan uint64, 50)
	for i := range 50 {
		all.Go(func() {
			seq, err := c.Put(t.Context(), put(fmt.Sprint(i), "s.a", "x", new(uint64(0))))
			switch {
			case err == nil:
				stored <- seq
			case !errors.Is(err, ErrConflict):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(stored) != 1 {
		t.Fatalf("%d stored", len(stored))
	}
	first := <-stored
	second, err := c.Put(t.Context(), put("next", "s.a", "y", &first))
	if err != nil || second <= first {
		t.Errorf("sequence %d after %d, %v", second, first, err)
	}
	if seq, err := c.Put(t.Context(), put("any", "s.a", "z", nil)); err != nil || seq <= second {
		t.Errorf("sequence %d after %d, %v", seq, second, err)
	}
	if seq, err := c.Put(t.Context(), put("any", "s.a", "z", nil)); err != nil || seq <= second {
		t.Errorf("repetition: %d, %v", seq, err)
	}
}

// The error of a message that was not stored is as exact as the server's response.
func TestPutErrors(t *testing.T) {
	srv, c := putEnv(t)
	if _, err := c.Put(t.Context(), put("1", "s.a", strings.Repeat("x", 5<<10), nil)); !errors.Is(err, chunk.ErrTooLarge) {
		t.Errorf("too large for the stream: %v", err)
	}
	if _, err := c.Put(t.Context(), put("1", "s.a", strings.Repeat("x", 2<<20), nil)); !errors.Is(err, chunk.ErrTooLarge) {
		t.Errorf("too large for the server: %v", err)
	}
	unmatched := put("1", "t.a", "x", nil)
	unmatched.RetryTimeout = 2 * time.Second // on a busy machine an attempt takes a part of it
	if _, err := c.Put(t.Context(), unmatched); !errors.Is(err, chunk.ErrNotStored) {
		t.Errorf("no stream for the subject: %v", err)
	}
	other := put("1", "s.a", "x", nil)
	other.Stream = "T"
	if _, err := c.Put(t.Context(), other); !errors.Is(err, chunk.ErrNotStored) {
		t.Errorf("another stream than expected: %v", err)
	}
	srv.Shutdown()
	late := put("1", "s.a", "x", nil)
	late.RetryTimeout = 200 * time.Millisecond
	if _, err := c.Put(t.Context(), late); !errors.Is(err, chunk.ErrUnknownOutcome) {
		t.Errorf("server is down: %v", err)
	}
	srv.Restart(t)
	natstest.Eventually(t, "a message is stored after the restart", func(ctx context.Context) error { _, err := c.Put(ctx, put("2", "s.a", "x", nil)); return err })
}

// Next returns the messages of a filter one after the other, and ErrNotFound after the last.
func TestNext(t *testing.T) {
	_, c := putEnv(t)
	for i, subject := range []string{"s.a.1", "s.b.1", "s.a.2", "s.b.2", "s.a.3"} {
		if _, err := c.Put(t.Context(), put(fmt.Sprint(i), subject, subject, nil)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for from := uint64(0); ; {
		m, err := c.NextRetry(t.Context(), time.Second, "S", "s.a.*", from)
		if errors.Is(err, ErrNotFound) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got, from = append(got, fmt.Sprintf("%d=%s=%s", m.Seq, m.Subject, m.Data)), m.Seq+1
	}
	if want := "[1=s.a.1=s.a.1 3=s.a.2=s.a.2 5=s.a.3=s.a.3]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if _, err := c.LastRetry(t.Context(), time.Second, "T", "s.a.1"); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("no stream for the subject: %v", err)
	}
}
