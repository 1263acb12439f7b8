package httpkit_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/authn"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/revocation"
)

// Streams are closed one after the other over the time, new ones are rejected, and Begin returns when the last one has ended.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d httpkit.Drain
		began := time.Now()
		closed := make(chan time.Duration, 4)
		for range 4 {
			ctx, leave, ok := d.Enter(t.Context())
			if !ok {
				t.Fatal("rejected before Begin")
			}
			go func() {
				<-ctx.Done()
				if !errors.Is(context.Cause(ctx), httpkit.ErrDrained) {
					t.Errorf("the cause is %v", context.Cause(ctx))
				}
				closed <- time.Since(began)
				time.Sleep(time.Second)
				leave()
				leave()
			}()
		}
		if err := d.Begin(t.Context(), 8*time.Second); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 7*time.Second || d.Len() != 0 || !d.Draining() {
			t.Errorf("after %s: %d streams, draining %t", took, d.Len(), d.Draining())
		}
		for _, want := range []time.Duration{0, 2 * time.Second, 4 * time.Second, 6 * time.Second} {
			if got := <-closed; got != want {
				t.Errorf("a stream was closed after %s, want %s", got, want)
			}
		}
		if _, _, ok := d.Enter(t.Context()); ok {
			t.Error("accepted after Begin")
		}
		if err := d.Begin(t.Context(), time.Second); err != nil {
			t.Errorf("again: %v", err)
		}
	})
}

// Streams that do not end are counted in the error, and closed before the deadline.
func TestDrainEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d httpkit.Drain
		stuck, leave, _ := d.Enter(t.Context())
		defer leave()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		err := d.Begin(ctx, time.Hour)
		if !errors.Is(err, context.DeadlineExceeded) || stuck.Err() == nil {
			t.Errorf("got %v; the stream: %v", err, stuck.Err())
		}
	})
}

// A stream that enters while its credential is revoked is closed, whether CloseRevoked has seen it or not; the streams of others stay open.
func TestDrainClosesRevokedStreams(t *testing.T) {
	revocations := authn.NewRevocations()
	d := httpkit.Drain{Revocations: revocations}
	enter := func(id string) context.Context {
		ctx, leave, ok := d.Enter(authn.NewContext(t.Context(), &auth.Grant{Tenant: "acme", Subject: "ann", TokenID: id}))
		if !ok {
			t.Fatal("rejected")
		}
		t.Cleanup(leave)
		return ctx
	}
	revoke := func(id string) {
		revocations.Apply(revocation.Revocation{Tenant: "acme", TokenID: id, At: time.Now(), Until: time.Now().Add(time.Hour)})
	}
	early, other := enter("t1"), enter("t2")
	public, leave, _ := d.Enter(t.Context())
	defer leave()
	revoke("t1")
	late := enter("t1")
	if !errors.Is(context.Cause(late), httpkit.ErrRevoked) {
		t.Errorf("a stream that entered later: %v", context.Cause(late))
	}
	d.CloseRevoked()
	if !errors.Is(context.Cause(early), httpkit.ErrRevoked) || httpkit.EndReason(early, early.Err()) != httpkit.EndRevoke {
		t.Errorf("the open stream: %v", context.Cause(early))
	}
	if other.Err() != nil || public.Err() != nil {
		t.Errorf("streams that are not revoked: %v, %v", other.Err(), public.Err())
	}
}

// BenchmarkCloseRevoked is the search for streams whose credentials are revoked among many open ones.
func BenchmarkCloseRevoked(b *testing.B) {
	revocations := authn.NewRevocations()
	d := httpkit.Drain{Revocations: revocations}
	var before, after runtime.MemStats
	contexts := make([]context.Context, 20_000)
	for n := range contexts {
		contexts[n] = authn.NewContext(b.Context(), &auth.Grant{Tenant: "acme", Subject: "ann", TokenID: fmt.Sprint("t", n)}) //nolint:fatcontext // one for each stream
	}
	runtime.GC()
	runtime.ReadMemStats(&before)
	for _, ctx := range contexts {
		if _, _, ok := d.Enter(ctx); !ok {
			b.Fatal("rejected")
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	for b.Loop() {
		d.CloseRevoked()
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(len(contexts)), "bytes/stream")
	runtime.KeepAlive(contexts)
}
