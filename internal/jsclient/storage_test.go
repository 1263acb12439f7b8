package jsclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// A stream, an account and a server that are full: a write ends within seconds with chunk.ErrNoStorage and not with an unknown outcome, and CheckStorage
// reports it. After space was freed both succeed.
func TestNoStorage(t *testing.T) {
	accounts := natstest.ServerConfig(`
		accounts { SMALL { jetstream: {max_file: 1M}, users: [{user: small, password: p}] } }`)
	for name, test := range map[string]struct {
		server []natstest.Option
		client []nats.Option
		limit  func(*jetstream.StreamConfig)
	}{
		"server":  {server: []natstest.Option{natstest.MaxStore(1 << 20)}},
		"account": {server: []natstest.Option{accounts}, client: []nats.Option{nats.UserInfo("small", "p")}},
		"stream":  {limit: func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 }},
	} {
		t.Run(name, func(t *testing.T) {
			js := natstest.Start(t, test.server...).JetStream(t, test.client...)
			cfg := jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}, Discard: jetstream.DiscardNew}
			if test.limit != nil {
				test.limit(&cfg)
			}
			if _, err := js.CreateStream(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			c := New(js)
			if err := c.CheckStorage(t.Context(), "S", "s.*"); err != nil {
				t.Errorf("empty stream: %v", err)
			}
			put := func(n int) error {
				m := nats.NewMsg("s.a")
				m.Header.Set(jetstream.MsgIDHeader, fmt.Sprint(n))
				m.Data = make([]byte, 100<<10)
				_, err := c.Put(t.Context(), Put{Msg: m, Stream: "S", RetryTimeout: time.Minute})
				return err
			}
			n, started := 0, time.Now()
			var full error
			for ; full == nil && n < 100; n++ {
				full = put(n)
			}
			if !errors.Is(full, chunk.ErrNoStorage) || !errors.Is(full, chunk.ErrNotStored) || time.Since(started) > time.Minute/2 {
				t.Errorf("full after %d: %v, after %s", n, full, time.Since(started))
			}
			for err := error(nil); err == nil; {
				_, err = js.Publish(t.Context(), "s.a", make([]byte, 2<<10), jetstream.WithRetryAttempts(0))
			}
			if err := c.CheckStorage(t.Context(), "S", "s.*"); !errors.Is(err, chunk.ErrNoStorage) {
				t.Errorf("full: CheckStorage returned %v", err)
			}
			if _, err := c.Purge(t.Context(), "S", "s.a", 5); err != nil {
				t.Fatal(err)
			}
			if err := c.CheckStorage(t.Context(), "S", "s.*"); err != nil {
				t.Errorf("freed: %v", err)
			}
			if err := put(n); err != nil {
				t.Errorf("freed: %v", err)
			}
		})
	}
}

// CheckStorage stores and removes nothing, and reaches no subscriber as a message of the stream; with three replicas too.
func TestCheckStorageLeavesNoTrace(t *testing.T) {
	for name, js := range map[string]jetstream.JetStream{
		"one server":     natstest.Start(t).JetStream(t),
		"three replicas": natstest.StartCluster(t, 3).JetStream(t),
	} {
		t.Run(name, func(t *testing.T) {
			replicas := 1
			if strings.HasPrefix(name, "three") {
				replicas = 3
			}
			for _, cfg := range []jetstream.StreamConfig{
				{Name: "S", Subjects: []string{"s.*"}},
				{Name: "TTL", Subjects: []string{"ttl.*"}, AllowMsgTTL: true},
				{Name: "KV", Subjects: []string{"$KV.B.>"}, AllowRollup: true, DenyDelete: true, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew},
				{Name: "Q", Subjects: []string{"q.*"}, Retention: jetstream.WorkQueuePolicy},
			} {
				cfg.Replicas = replicas
				stream, err := js.CreateStream(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				first := strings.NewReplacer("*", "a", ">", "a").Replace(cfg.Subjects[0])
				// A new leader may not be known to every node yet: a publish through another node has no responder until then.
				if _, err := js.Publish(t.Context(), first, []byte("x"), jetstream.WithRetryAttempts(20)); err != nil {
					t.Fatal(err)
				}
				for range 3 {
					natstest.Eventually(t, "check "+cfg.Name, func(ctx context.Context) error { return New(js).CheckStorage(ctx, cfg.Name, cfg.Subjects[0]) })
				}
				info, err := stream.Info(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if info.State.Msgs != 1 || info.State.FirstSeq != 1 || info.State.LastSeq != 1 {
					t.Errorf("%s: %+v, want one message", cfg.Name, info.State)
				}
			}
		})
	}
}

// The server fails to write a file of a stream: it does not respond to writes any more, a write ends within seconds, and CheckStorage has the reason. The
// stream stays so when the cause is removed, until the server is restarted; other streams are not affected.
func TestWriteError(t *testing.T) {
	dir := t.TempDir()
	srv := natstest.Start(t, natstest.StoreDir(dir))
	js := srv.JetStream(t)
	for _, name := range []string{"S", "OTHER"} {
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name + ".*"}}); err != nil {
			t.Fatal(err)
		}
	}
	c, repair := New(js), natstest.BreakStream(t, js, dir, "S", "S.a")
	m := nats.NewMsg("S.a")
	m.Header.Set(jetstream.MsgIDHeader, "1")
	started := time.Now()
	if _, err := c.Put(t.Context(), Put{Msg: m, Stream: "S", RetryTimeout: 15 * time.Second}); !errors.Is(err, chunk.ErrUnknownOutcome) || !errors.Is(err, chunk.ErrNoStorage) {
		t.Errorf("a write: %v", err)
	}
	if took := time.Since(started); took > 14*time.Second {
		t.Errorf("a write ended after %s", took)
	}
	check := func(stream string) error { return c.CheckStorage(t.Context(), stream, stream+".*") }
	repair()
	if failed, ok := errors.AsType[*WriteError](check("S")); !ok || failed.Stream != "S" || !errors.Is(failed, chunk.ErrNoStorage) {
		t.Errorf("CheckStorage: %v", check("S"))
	}
	if err := check("OTHER"); err != nil {
		t.Errorf("the other stream: %v", err)
	}
	srv.Restart(t)
	natstest.Eventually(t, "storage after the restart", func(ctx context.Context) error { return c.CheckStorage(ctx, "S", "S.*") })
}
