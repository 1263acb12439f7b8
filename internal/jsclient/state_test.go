package jsclient

import (
	"slices"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// The server counts and skips subjects as Subjects and State expect.
func TestSubjects(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"s.a.1", "s.b.1", "s.a.3", "s.a.2", "s.a.2", "s.a.4"} {
		if _, err := js.Publish(t.Context(), subject, nil); err != nil {
			t.Fatal(err)
		}
	}
	client := New(js)
	for _, c := range []struct {
		filter string
		offset int
		want   []string
	}{
		{"s.>", 0, []string{"s.a.1", "s.a.2", "s.a.3", "s.a.4", "s.b.1"}},
		{"s.a.*", 0, []string{"s.a.1", "s.a.2", "s.a.3", "s.a.4"}},
		{"s.a.*", 3, []string{"s.a.4"}},
		{"s.a.*", 4, nil},
		{"s.c.*", 0, nil},
	} {
		page, next, err := client.Subjects(t.Context(), "S", c.filter, c.offset)
		if err != nil || !slices.Equal(page, c.want) || next != 0 {
			t.Errorf("%s from %d: %v, next %d, %v; want %v", c.filter, c.offset, page, next, err, c.want)
		}
	}
	if _, _, err := client.Subjects(t.Context(), "NONE", "s.>", 0); err == nil {
		t.Error("missing stream: no error")
	}
}

func TestNextOffset(t *testing.T) {
	for _, c := range []struct{ offset, got, total, want int }{
		{0, 100, 250, 100}, {100, 100, 250, 200}, {200, 50, 250, 0}, {0, 0, 0, 0}, {200, 0, 250, 0},
	} {
		if got := nextOffset(c.offset, c.got, c.total); got != c.want {
			t.Errorf("%d after %d of %d: next %d, want %d", c.got, c.offset, c.total, got, c.want)
		}
	}
}
