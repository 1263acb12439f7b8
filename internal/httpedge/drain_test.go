package httpedge_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpedge"
)

// After SIGTERM the edge is not ready and accepts no new streams. It closes the open streams evenly over the drain period, each after a complete event and
// without a clean end.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients = 20
		w := newEnv(t, envConfig{edge: httpedge.Config{DrainPeriod: 10 * time.Second}})
		w.log.Append(s1, chunk.TypeRunStarted, "")
		began := time.Now()
		var (
			mu    sync.Mutex
			ended []time.Duration
			group sync.WaitGroup
		)
		for range clients {
			group.Go(func() {
				f := newFollower(w, "/v1/sessions/s1/events")
				how, _, err := f.connect(t.Context(), -1)
				if how != cut || err != nil || len(f.data) != 0 || f.retry < 250 || f.retry > 375 {
					t.Errorf("ended %d with %v, %d lines of an event, retry %d", how, err, len(f.data), f.retry)
				}
				mu.Lock()
				defer mu.Unlock()
				ended = append(ended, time.Since(began))
			})
		}
		stop := make(chan struct{})
		group.Go(func() { // a writer appends all the time
			for {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Millisecond):
					w.log.Append(s1, chunk.TypeTextDelta, `"delta":"x"`)
				}
			}
		})
		time.Sleep(time.Minute)
		drained := make(chan error)
		go func() { drained <- w.edge.Drain(context.Background()) }()
		synctest.Wait()
		checkRefused(t, w)
		if err := <-drained; err != nil {
			t.Error(err)
		}
		close(stop)
		group.Wait()
		checkSpread(t, ended, time.Minute, 10*time.Second)
		if err := w.edge.Drain(context.Background()); err != nil {
			t.Errorf("draining twice: %v", err)
		}
	})
}

func checkRefused(t *testing.T, w *env) {
	t.Helper()
	if !w.edge.Status().Draining {
		t.Error("the status is not draining")
	}
	if rec := w.record(http.MethodGet, "/healthz", nil); rec.Code != http.StatusOK {
		t.Errorf("not alive while draining: %d", rec.Code)
	}
	rec := w.record(http.MethodGet, "/v1/sessions/s1/events", nil)
	if rec.Code != http.StatusServiceUnavailable || rec.Header().Get("Retry-After") == "" || !strings.Contains(rec.Body.String(), `"DRAINING"`) {
		t.Errorf("a typed client while draining: %d %v %s", rec.Code, rec.Header(), rec.Body)
	}
	f := newFollower(w, "/v1/sessions/s1/events") // looks like an EventSource
	how, status, err := f.connect(t.Context(), -1)
	if how != cut || status != http.StatusOK || err != nil || f.retry < 250 || f.retry > 375 || len(f.events) > 0 {
		t.Errorf("an EventSource while draining: %d, status %d, %v, retry %d", how, status, err, f.retry)
	}
	if rec := w.record(http.MethodGet, "/v1/sessions/s1/snapshot", nil); rec.Code != http.StatusOK {
		t.Errorf("snapshot while draining: %d", rec.Code)
	}
}

// checkSpread checks that the ends are distributed evenly over the period, within a step of it.
func checkSpread(t *testing.T, ended []time.Duration, from, window time.Duration) {
	t.Helper()
	slices.Sort(ended)
	step := window / time.Duration(len(ended))
	for i, at := range ended {
		want := from + time.Duration(i)*step
		if at < want-step || at > want+step {
			t.Errorf("client %d of %d was cut at %s, want about %s", i, len(ended), at, want)
		}
	}
}

// At the end of the period Drain returns the number of remaining streams.
func TestDrainTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		w.log.Append(s1, chunk.TypeRunStarted, "")
		w.log.Append(s1, chunk.TypeTextDelta, fmt.Sprintf(`"delta":%q`, strings.Repeat("x", 100<<10)))
		rawStream(t, w, "/v1/sessions/s1/events") // stalls in the middle of a write
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.edge.Drain(ctx); err == nil || !strings.Contains(err.Error(), "1 streams still open") {
			t.Errorf("got %v", err)
		}
		time.Sleep(15 * time.Second) // the write timeout of the client
		if err := w.edge.Drain(t.Context()); err != nil {
			t.Errorf("got %v", err)
		}
	})
}
