package jsreader

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

const fewOnly = `accounts { A { jetstream: enabled, users: [ {user: all, password: p},
	{user: few, password: p, permissions: {publish: {deny: ["$JS.API.CONSUMER.CREATE.>"]}}} ] } }, no_auth_user: all`

// readAll reads to the end and returns the sequences.
func readAll(t *testing.T, o *Ordered) (seqs []uint64) {
	t.Helper()
	for {
		left := o.Remaining()
		e, err := o.NextThrough(t.Context(), 1<<40)
		if errors.Is(err, ErrEnd) {
			return seqs
		}
		if err != nil {
			t.Fatal(err)
		}
		if string(e.Data) != fmt.Sprint(e.Seq) || e.Seq != o.Last() || left == 0 || e.Pending != o.Remaining() {
			t.Fatalf("message %d: data %q, last %d, %d remaining before it, %d pending, %d remaining", e.Seq, e.Data, o.Last(), left, e.Pending, o.Remaining())
		}
		seqs = append(seqs, e.Seq)
	}
}

// A reader of a few messages, and one of a position after which nothing comes, creates no consumer: its user may not. Another one reads on with a consumer,
// also if the count is wrong.
func TestFewMessagesNeedNoConsumer(t *testing.T) {
	srv, js := newStream(t, natstest.ServerConfig(fewOnly))
	few := srv.JetStream(t, nats.UserInfo("few", "p"))
	publish(t, js, "s.a", 3)
	publish(t, js, "s.b", 20) // 4 to 23
	publish(t, js, "s.c", 1)
	publish(t, js, "s.a", 1) // 25
	for name, c := range map[string]struct {
		cfg      OrderedConfig
		want     []uint64
		consumer bool
	}{
		"all of four":             {cfg: OrderedConfig{Filter: "s.a", Count: 4}, want: []uint64{1, 2, 3, 25}},
		"after the first":         {cfg: OrderedConfig{Filter: "s.a", Count: 4, After: 1}, want: []uint64{2, 3, 25}},
		"after the last":          {cfg: OrderedConfig{Filter: "s.a", Count: 4, After: 25}},
		"after the last of many":  {cfg: OrderedConfig{Filter: "s.b", Count: 20, After: 23}},
		"one after many":          {cfg: OrderedConfig{Filter: "s.b", Count: 20, After: 22}, want: []uint64{23}},
		"the count is too high":   {cfg: OrderedConfig{Filter: "s.a", Count: 7}, want: []uint64{1, 2, 3, 25}},
		"all are deleted":         {cfg: OrderedConfig{Filter: "s.d", Count: 2}},
		"the count is too low":    {cfg: OrderedConfig{Filter: "s.a", Count: 1}, want: []uint64{1, 2, 3, 25}, consumer: true},
		"three after many":        {cfg: OrderedConfig{Filter: "s.b", Count: 20, After: 20}, want: []uint64{21, 22, 23}, consumer: true},
		"one of many readers":     {cfg: OrderedConfig{Filter: "s.a", Count: 4, Share: 4}, want: []uint64{1, 2, 3, 25}, consumer: true},
		"the count is not known":  {cfg: OrderedConfig{Filter: "s.c"}, want: []uint64{24}, consumer: true},
		"many":                    {cfg: OrderedConfig{Filter: "s.b", Count: 20, After: 0}, want: []uint64{4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}, consumer: true},
		"all, without its filter": {cfg: OrderedConfig{Count: 25, After: 24}, want: []uint64{25}},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.Stream, c.cfg.OpenTimeout = testStream, 5*time.Second
			streams := map[bool]jetstream.JetStream{true: js, false: few}
			o := NewOrdered(jsclient.New(streams[c.consumer]), c.cfg)
			defer o.Close()
			if err := o.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := readAll(t, o); fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("read %v, want %v", got, c.want)
			}
			if c.consumer && o.consumer == "" {
				t.Error("no consumer was created")
			}
		})
	}
}

// Large messages are not all requested at once: the memory of a reader has a bound.
func TestRequestedMessagesAreBounded(t *testing.T) {
	_, js := newStream(t)
	body := bytes.Repeat([]byte("x"), 900<<10)
	for range 5 {
		if _, err := js.Publish(t.Context(), "s.a", body); err != nil {
			t.Fatal(err)
		}
	}
	o := NewOrdered(jsclient.New(js), OrderedConfig{Stream: testStream, Filter: "s.a", Count: 5, OpenTimeout: 5 * time.Second})
	o.bytes = 2 << 20
	defer o.Close()
	if err := o.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(o.peeked); n != 3 {
		t.Errorf("%d messages are in memory, want 3", n)
	}
	for want := uint64(1); want <= 5; want++ {
		if e, err := o.Next(t.Context()); err != nil || e.Seq != want {
			t.Fatalf("read %d, %v; want %d", e.Seq, err, want)
		}
	}
	if _, err := o.Next(t.Context()); !errors.Is(err, ErrEnd) {
		t.Errorf("err = %v, want ErrEnd", err)
	}
}

// The stream is recreated between two requests: the reader returns no message of the new one, whether its caller has read the state of the stream before or not.
// The state is not read again then.
func TestStreamRecreatedBetweenRequests(t *testing.T) {
	for _, counted := range []bool{false, true} {
		t.Run(fmt.Sprintf("counted=%t", counted), func(t *testing.T) { recreatedBetweenRequests(t, counted) })
	}
}

func recreatedBetweenRequests(t *testing.T, counted bool) {
	t.Helper()
	_, js := newStream(t)
	publish(t, js, "s.a", 3)
	nc := js.Conn()
	cfg := OrderedConfig{Stream: testStream, Filter: "s.a", Count: 3, OpenTimeout: 5 * time.Second}
	if counted {
		state, err := jsclient.New(js).State(t.Context(), testStream, "s.>")
		if err != nil {
			t.Fatal(err)
		}
		cfg.Epoch, cfg.Counted = state.Epoch, state
	}
	requests, states := 0, 0
	sub, err := nc.Subscribe("API.>", func(m *nats.Msg) {
		call := strings.TrimPrefix(m.Subject, "API.")
		if strings.HasPrefix(call, "STREAM.INFO") {
			states++
		}
		if strings.HasPrefix(call, "STREAM.MSG.GET") {
			if requests++; requests == 2 {
				if err := js.DeleteStream(t.Context(), testStream); err != nil {
					t.Error(err)
				}
				createStream(t, js)
				publish(t, js, "s.a", 3)
			}
		}
		if err := nc.PublishRequest("$JS.API."+call, m.Reply, m.Data); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := sub.Unsubscribe(); err != nil {
			t.Error(err)
		}
	}()
	by, err := jetstream.NewWithAPIPrefix(nc, "API")
	if err != nil {
		t.Fatal(err)
	}
	o := NewOrdered(jsclient.New(by), cfg)
	defer o.Close()
	if err := o.Open(t.Context()); !errors.Is(err, ErrRecreated) {
		t.Errorf("err = %v, want ErrRecreated", err)
	}
	want := 2
	if counted {
		want = 1
	}
	if requests < 2 || states != want {
		t.Errorf("%d messages and %d states were requested, want at least 2, and %d", requests, states, want)
	}
}
