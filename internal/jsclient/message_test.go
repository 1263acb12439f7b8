package jsclient

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// fill creates a stream and stores one message for each subject; the data of a message is its subject.
func fill(t *testing.T, cfg jetstream.StreamConfig, subjects ...string) *Client {
	t.Helper()
	js := natstest.Start(t).JetStream(t)
	if _, err := js.CreateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	for _, subject := range subjects {
		m := &nats.Msg{Subject: subject, Header: nats.Header{"Name": {"value"}}, Data: []byte(subject)}
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	return New(js)
}

func checkMessage(t *testing.T, m Message, err error, seq uint64, subject string) {
	t.Helper()
	if err != nil || m.Seq != seq || m.Subject != subject || string(m.Data) != subject || m.Header.Get("Name") != "value" || time.Since(m.Stored) > time.Minute {
		t.Errorf("%+v, %v; want %d of %s", m, err, seq, subject)
	}
}

// A stream without direct access responds only through its leader.
func TestAtWithoutDirectAccess(t *testing.T) {
	for _, direct := range []bool{true, false} {
		c := fill(t, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, AllowDirect: direct}, "s.a", "s.b", "s.a")
		m, err := c.At(t.Context(), "S", 2)
		checkMessage(t, m, err, 2, "s.b")
		if _, err := c.At(t.Context(), "S", 4); !errors.Is(err, ErrNotFound) {
			t.Errorf("direct %t, no such message: %v", direct, err)
		}
		if _, err := c.At(t.Context(), "NONE", 1); err == nil || errors.Is(err, ErrNotFound) {
			t.Errorf("direct %t, missing stream: %v", direct, err)
		}
	}
}

func TestBefore(t *testing.T) {
	c := fill(t, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, AllowDirect: true}, "s.b", "s.a", "s.b", "s.a")
	for upTo, want := range map[uint64]uint64{2: 2, 3: 2, 4: 4} {
		m, err := c.Before(t.Context(), "S", "s.a", upTo)
		checkMessage(t, m, err, want, "s.a")
	}
	for _, upTo := range []uint64{1, 5} {
		if _, err := c.Before(t.Context(), "S", "s.a", upTo); !errors.Is(err, ErrNotFound) {
			t.Errorf("up to %d: %v", upTo, err)
		}
	}
}

// The leader returns the headers also as they are stored.
func TestBlock(t *testing.T) {
	c := fill(t, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}, "s.a")
	m, err := c.Last(t.Context(), "S", "s.a")
	checkMessage(t, m, err, 1, "s.a")
	if want := "NATS/1.0\r\nName: value\r\n\r\n"; string(m.Block) != want {
		t.Errorf("block %q, want %q", m.Block, want)
	}
}

func TestDelete(t *testing.T) {
	c := fill(t, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}, "s.a", "s.b", "s.c")
	if err := c.Delete(t.Context(), "S", 2); err != nil {
		t.Fatal(err)
	}
	for _, seq := range []uint64{2, 4} { // one that was deleted, and one that never existed
		if err := c.Delete(t.Context(), "S", seq); !errors.Is(err, ErrNotFound) {
			t.Errorf("message %d is missing: %v", seq, err)
		}
	}
	if err := c.Delete(t.Context(), "NONE", 1); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("missing stream: %v", err)
	}
	sealed := fill(t, jetstream.StreamConfig{Name: "D", Subjects: []string{"d.>"}, DenyDelete: true}, "d.a")
	if err := sealed.Delete(t.Context(), "D", 1); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("deletes are denied: %v", err)
	}
}

func TestState(t *testing.T) {
	c := fill(t, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}, "s.a", "s.b", "s.a", "s.c.d")
	if _, err := c.Purge(t.Context(), "S", "s.b", 0); err != nil {
		t.Fatal(err)
	}
	s, err := c.State(t.Context(), "S", "s.*")
	if err != nil || s.First != 1 || s.Last != 4 || s.Replicas != 1 || time.Since(s.Created) > time.Minute {
		t.Errorf("%+v, %v", s, err)
	}
	if len(s.Subjects) != 1 || s.Subjects["s.a"] != 2 {
		t.Errorf("subjects %v, want 2 messages of s.a", s.Subjects)
	}
	if s, err := c.State(t.Context(), "S", ""); err != nil || s.Subjects != nil || s.Last != 4 {
		t.Errorf("no filter: %+v, %v", s, err)
	}
	if _, err := c.State(t.Context(), "NONE", ""); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("missing stream: %v", err)
	}
}
