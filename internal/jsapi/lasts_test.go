package jsapi

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/natstest"
)

func TestLasts(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, AllowDirect: true}); err != nil {
		t.Fatal(err)
	}
	api := New(js)
	var got []string
	ask := func(stream string, subjects ...string) (uint64, error) {
		got = nil
		return api.Lasts(t.Context(), stream, subjects, func(subject string, m Message) {
			got = append(got, fmt.Sprintf("%s %d %.1s", subject, m.Seq, m.Data))
		})
	}
	if upTo, err := ask("S", "s.a"); err != nil || upTo != 0 || got != nil {
		t.Errorf("nothing is there: %d, %v, %v", upTo, got, err)
	}
	for _, subject := range []string{"s.a", "s.b", "s.a", "s.c"} {
		if _, err := js.Publish(t.Context(), subject, []byte(subject[2:])); err != nil {
			t.Fatal(err)
		}
	}
	if upTo, err := ask("S", "s.a", "s.none", "s.b"); err != nil || upTo != 4 || fmt.Sprint(got) != "[s.b 2 b s.a 3 a]" {
		t.Errorf("up to %d, %v, %v", upTo, got, err)
	}
	if _, err := ask("S", make([]string, 0)...); !errors.Is(err, errAnswer) {
		t.Errorf("asked for nothing: %v", err)
	}
	if _, err := ask("NONE", "s.a"); err == nil {
		t.Error("no such stream, and no error")
	}
}

// An answer that is too long for one is given in pieces, to whoever asks again.
func TestLongLasts(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, AllowDirect: true}); err != nil {
		t.Fatal(err)
	}
	left := make(map[string]bool)
	for n := range 10 {
		subject := fmt.Sprintf("s.%d", n)
		left[subject] = true
		if _, err := js.Publish(t.Context(), subject, bytes.Repeat([]byte("x"), lastsBytes/3)); err != nil {
			t.Fatal(err)
		}
	}
	begun, rounds := time.Now(), 0
	for ; len(left) > 0 && rounds < 10; rounds++ {
		var subjects []string
		for subject := range left {
			subjects = append(subjects, subject)
		}
		if upTo, err := New(js).Lasts(t.Context(), "S", subjects, func(subject string, _ Message) { delete(left, subject) }); err != nil || upTo != 10 {
			t.Fatalf("up to %d, %v", upTo, err)
		}
	}
	if len(left) > 0 || rounds < 2 || time.Since(begun) > patience {
		t.Errorf("%d left after %d rounds and %s", len(left), rounds, time.Since(begun))
	}
}
