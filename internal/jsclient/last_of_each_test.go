package jsclient

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

func TestLastOfEach(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, AllowDirect: true}); err != nil {
		t.Fatal(err)
	}
	c := New(js)
	var got []string
	request := func(stream string, subjects ...string) (uint64, error) {
		got = nil
		return c.LastOfEach(t.Context(), stream, subjects, func(m Message) {
			got = append(got, fmt.Sprintf("%s %d %.1s", m.Subject, m.Seq, m.Data))
		})
	}
	if upTo, err := request("S", "s.a"); err != nil || upTo != 0 || got != nil {
		t.Errorf("empty stream: %d, %v, %v", upTo, got, err)
	}
	for _, subject := range []string{"s.a", "s.b", "s.a", "s.c"} {
		if _, err := js.Publish(t.Context(), subject, []byte(subject[2:])); err != nil {
			t.Fatal(err)
		}
	}
	if upTo, err := request("S", "s.a", "s.none", "s.b"); err != nil || upTo != 4 || fmt.Sprint(got) != "[s.b 2 b s.a 3 a]" {
		t.Errorf("up to %d, %v, %v", upTo, got, err)
	}
	if _, err := request("S", make([]string, 0)...); !errors.Is(err, ErrBadResponse) {
		t.Errorf("no subjects: %v", err)
	}
	if _, err := request("NONE", "s.a"); err == nil {
		t.Error("missing stream: no error")
	}
}

// A response that would be too long omits subjects; the caller requests the rest.
func TestLastOfEachInPieces(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, AllowDirect: true}); err != nil {
		t.Fatal(err)
	}
	left := make(map[string]bool)
	for n := range 10 {
		subject := fmt.Sprintf("s.%d", n)
		left[subject] = true
		if _, err := js.Publish(t.Context(), subject, bytes.Repeat([]byte("x"), maxBatchBytes/3)); err != nil {
			t.Fatal(err)
		}
	}
	started, rounds := time.Now(), 0
	for ; len(left) > 0 && rounds < 10; rounds++ {
		var subjects []string
		for subject := range left {
			subjects = append(subjects, subject)
		}
		if upTo, err := New(js).LastOfEach(t.Context(), "S", subjects, func(m Message) { delete(left, m.Subject) }); err != nil || upTo != 10 {
			t.Fatalf("up to %d, %v", upTo, err)
		}
	}
	if len(left) > 0 || rounds < 2 || time.Since(started) > requestTimeout {
		t.Errorf("%d left after %d rounds and %s", len(left), rounds, time.Since(started))
	}
}

// A message that is deleted while the server reads is not taken for a subject without messages. The server's response is played: a delete cannot be timed.
func TestLastOfEachDuringADelete(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	for name, parts := range map[string][]string{"after a message": {"s.a", ""}, "at once": {""}} {
		stream := strings.ReplaceAll(strings.ToUpper(name), " ", "_")
		sub, err := js.Conn().Subscribe("$JS.API.DIRECT.GET."+stream, func(m *nats.Msg) {
			for _, subject := range parts {
				resp := nats.NewMsg(m.Reply)
				resp.Header.Set("Status", "404")
				resp.Header.Set("Description", "Message Not Found")
				if subject != "" {
					resp.Data, resp.Header = []byte("x"), nats.Header{"Nats-Subject": {subject}, "Nats-Sequence": {"1"}, "Nats-Time-Stamp": {"2026-11-27T00:00:00Z"}}
				}
				if err := m.RespondMsg(resp); err != nil {
					t.Error(err)
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := New(js).LastOfEach(t.Context(), stream, []string{"s.*"}, func(Message) {}); !errors.Is(err, ErrBadResponse) {
			t.Errorf("%s: %v, want an error", name, err)
		}
		if err := sub.Unsubscribe(); err != nil {
			t.Error(err)
		}
	}
}
