package jsclient

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/wait"
)

func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, attempts := time.Now(), 0
		v, err := Retry(t.Context(), Policy{For: time.Minute}, func(ctx context.Context) (int, error) {
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) != 12*time.Second {
				t.Errorf("attempt %d: deadline %s, want a fifth of the budget", attempts, deadline)
			}
			if attempts++; attempts < 4 {
				return 0, nats.ErrTimeout
			}
			return 7, nil
		})
		if v != 7 || err != nil || time.Since(start) != 350*time.Millisecond {
			t.Errorf("%d, %v after %s, want 7 after 350ms", v, err, time.Since(start))
		}
	})
}

func TestRetryEnds(t *testing.T) {
	refused := &jetstream.APIError{Code: 400, ErrorCode: 1}
	for _, c := range []struct {
		name   string
		policy Policy
		cause  error
		after  time.Duration
		want   []error
	}{
		{"final error", Policy{For: time.Minute}, refused, 0, []error{refused}},
		{"budget", Policy{For: time.Minute}, nats.ErrTimeout, time.Minute, []error{nats.ErrTimeout}},
		{"context", Policy{For: time.Hour * 2}, nats.ErrTimeout, time.Hour, []error{context.DeadlineExceeded, nats.ErrTimeout}},
		{"context, no budget", Policy{Backoff: wait.Backoff{First: time.Second, Max: time.Second}}, nats.ErrTimeout, time.Hour, []error{context.DeadlineExceeded, nats.ErrTimeout}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				start := time.Now()
				_, err := Retry(ctx, c.policy, func(context.Context) (bool, error) { return false, c.cause })
				if time.Since(start) != c.after {
					t.Errorf("ended after %s, want %s", time.Since(start), c.after)
				}
				for _, want := range c.want {
					if !errors.Is(err, want) {
						t.Errorf("%v, want %v", err, want)
					}
				}
			})
		})
	}
}

// With a connection in the policy, Retry does not ask while it is down.
func TestRetryWaitsForTheConnection(t *testing.T) {
	srv := natstest.Start(t)
	nc := srv.JetStream(t).Conn()
	srv.Shutdown()
	natstest.Eventually(t, "the client notices", func(context.Context) error {
		if nc.IsConnected() {
			return errors.New("still connected")
		}
		return nil
	})
	asked := 0
	ask := func(context.Context) (bool, error) { asked++; return true, nil }
	if _, err := Retry(t.Context(), Policy{For: 200 * time.Millisecond, Conn: nc}, ask); !errors.Is(err, nats.ErrDisconnected) || asked > 0 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	srv.Restart(t)
	if _, err := Retry(t.Context(), Policy{Conn: nc}, ask); err != nil || asked != 1 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	nc.Close()
	if _, err := Retry(t.Context(), Policy{Conn: nc}, ask); !errors.Is(err, nats.ErrConnectionClosed) || asked != 1 {
		t.Errorf("asked %d times: %v", asked, err)
	}
}

// A request that the user may not make, or for a stream that does not exist, ends after the first attempt with the reason, however large the budget is.
func TestPermanentErrorsAreNotRetried(t *testing.T) {
	var asking sync.WaitGroup // each denied request waits for the timeout of its attempt
	defer asking.Wait()
	srv := natstest.Start(t, natstest.ServerConfig(`accounts { A { jetstream: enabled, users: [ {user: all, password: p},
		{user: few, password: p, permissions: {publish: {deny: ["$JS.API.STREAM.>", "$JS.API.DIRECT.GET.>"]}}} ] } }`))
	all := srv.JetStream(t, nats.UserInfo("all", "p"))
	if _, err := all.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}}); err != nil {
		t.Fatal(err)
	}
	for name, ask := range map[string]func(ctx context.Context, c *Client, stream string) error{
		"last": func(ctx context.Context, c *Client, stream string) error {
			_, err := c.Last(ctx, stream, "s.a")
			return err
		},
		"next": func(ctx context.Context, c *Client, stream string) error {
			_, err := c.Next(ctx, stream, "s.a", 1)
			return err
		},
		"purge": func(ctx context.Context, c *Client, stream string) error {
			_, err := c.Purge(ctx, stream, "s.a", 0)
			return err
		},
		"state": func(ctx context.Context, c *Client, stream string) error {
			_, err := c.State(ctx, stream, "")
			return err
		},
		"delete": func(ctx context.Context, c *Client, stream string) error { return c.Delete(ctx, stream, 1) },
		"before": func(ctx context.Context, c *Client, stream string) error {
			_, err := c.Before(ctx, stream, "s.a", 9)
			return err
		},
		"each": func(ctx context.Context, c *Client, stream string) error {
			_, err := c.LastOfEach(ctx, stream, []string{"s.a"}, func(Message) {})
			return err
		},
	} {
		retry := func(js jetstream.JetStream, stream string) (attempts int, err error) {
			c := New(js)
			_, err = Retry(t.Context(), Policy{For: minAttemptTimeout * 5}, func(ctx context.Context) (struct{}, error) {
				attempts++
				return struct{}{}, ask(ctx, c, stream)
			})
			return attempts, err
		}
		js := srv.JetStream(t, nats.UserInfo("few", "p"))
		asking.Go(func() {
			if n, err := retry(js, "S"); n != 1 || !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("%s: denied: %d attempts, %v", name, n, err)
			}
			if name == "before" || name == "each" {
				return // without a stream there is no response, as without a leader
			}
			if n, err := retry(all, "MISSING"); n != 1 || !errors.Is(err, jetstream.ErrStreamNotFound) {
				t.Errorf("%s: no stream: %d attempts, %v", name, n, err)
			}
		})
	}
}
