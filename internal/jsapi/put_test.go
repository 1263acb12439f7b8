package jsapi

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
	"github.com/tailrace/tailrace/internal/natstest"
)

func putWorld(t *testing.T) (*natstest.Server, *API) {
	t.Helper()
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, MaxMsgSize: 4 << 10}); err != nil {
		t.Fatal(err)
	}
	return srv, New(js)
}

func put(id, subject, data string, after *uint64) Put {
	msg := nats.NewMsg(subject)
	msg.Data = []byte(data)
	msg.Header.Set(jetstream.MsgIDHeader, id)
	return Put{Msg: msg, Stream: "S", After: after, Patience: 10 * time.Second}
}

// Of many who expect the same, one is stored; who expects that one comes next.
func TestPut(t *testing.T) {
	_, api := putWorld(t)
	var all sync.WaitGroup
	stored := make(chan uint64, 50)
	for i := range 50 {
		all.Go(func() {
			seq, err := api.Put(t.Context(), put(fmt.Sprint(i), "s.a", "x", new(uint64(0))))
			switch {
			case err == nil:
				stored <- seq
			case !errors.Is(err, ErrMoved):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(stored) != 1 {
		t.Fatalf("%d were stored", len(stored))
	}
	first := <-stored
	second, err := api.Put(t.Context(), put("next", "s.a", "y", &first))
	if err != nil || second <= first {
		t.Errorf("%d behind %d, %v", second, first, err)
	}
	if seq, err := api.Put(t.Context(), put("any", "s.a", "z", nil)); err != nil || seq <= second {
		t.Errorf("%d behind %d, %v", seq, second, err)
	}
	if seq, err := api.Put(t.Context(), put("any", "s.a", "z", nil)); err != nil || seq <= second {
		t.Errorf("once more: %d, %v", seq, err)
	}
}

// What became of a message that was not stored is said as exactly as it is known.
func TestPutErrors(t *testing.T) {
	srv, api := putWorld(t)
	if _, err := api.Put(t.Context(), put("1", "s.a", strings.Repeat("x", 5<<10), nil)); !errors.Is(err, chunk.ErrTooLarge) {
		t.Errorf("too large for the stream: %v", err)
	}
	if _, err := api.Put(t.Context(), put("1", "s.a", strings.Repeat("x", 2<<20), nil)); !errors.Is(err, chunk.ErrTooLarge) {
		t.Errorf("too large for the server: %v", err)
	}
	nobody := put("1", "t.a", "x", nil)
	nobody.Patience = 200 * time.Millisecond
	if _, err := api.Put(t.Context(), nobody); !errors.Is(err, chunk.ErrNotStored) {
		t.Errorf("no stream: %v", err)
	}
	other := put("1", "s.a", "x", nil)
	other.Stream = "T"
	if _, err := api.Put(t.Context(), other); !errors.Is(err, chunk.ErrNotStored) {
		t.Errorf("another stream: %v", err)
	}
	srv.Shutdown()
	late := put("1", "s.a", "x", nil)
	late.Patience = 200 * time.Millisecond
	if _, err := api.Put(t.Context(), late); !errors.Is(err, chunk.ErrUnknownOutcome) {
		t.Errorf("no server: %v", err)
	}
	srv.Restart(t)
	natstest.Await(t, "the late one, or another", func(ctx context.Context) error { _, err := api.Put(ctx, put("2", "s.a", "x", nil)); return err })
}

// Next walks over the messages of a filter, and says that it has come to the end.
func TestNext(t *testing.T) {
	_, api := putWorld(t)
	for i, subject := range []string{"s.a.1", "s.b.1", "s.a.2", "s.b.2", "s.a.3"} {
		if _, err := api.Put(t.Context(), put(fmt.Sprint(i), subject, subject, nil)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for from := uint64(0); ; {
		m, err := api.NextWithin(t.Context(), time.Second, "S", "s.a.*", from)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
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
	if _, err := api.LastWithin(t.Context(), time.Second, "T", "s.a.1"); err == nil || errors.Is(err, jetstream.ErrMsgNotFound) {
		t.Errorf("no stream: %v", err)
	}
}
