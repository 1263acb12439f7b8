package httpedge_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/projector/fold"
)

// countedSnapshots counts the reads, and waits in each of them until it is released.
type countedSnapshots struct {
	snapshotsOf

	reads, running, peak *atomic.Int64
	release              chan struct{}
}

func newCountedSnapshots(w *env) countedSnapshots {
	return countedSnapshots{w.snapshots, new(atomic.Int64), new(atomic.Int64), new(atomic.Int64), make(chan struct{})}
}

func (s countedSnapshots) wait(ctx context.Context) error {
	s.reads.Add(1)
	for n, most := s.running.Add(1), s.peak.Load(); n > most && !s.peak.CompareAndSwap(most, n); most = s.peak.Load() {
	}
	defer s.running.Add(-1)
	select {
	case <-s.release:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s countedSnapshots) Snapshot(ctx context.Context, session chunk.Session) (fold.Snapshot, error) {
	if err := s.wait(ctx); err != nil {
		return fold.Snapshot{}, err
	}
	return s.snapshotsOf.Snapshot(ctx, session)
}

func (s countedSnapshots) MessagePage(ctx context.Context, session chunk.Session, q fold.PageQuery) (*fold.MessagePage, error) {
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	return s.snapshotsOf.MessagePage(ctx, session, q)
}

// pageEdge is an edge without connections, whose reads wait for a test.
func pageEdge(t *testing.T, cfg httpedge.Config) (*env, countedSnapshots, *httpedge.Edge) {
	t.Helper()
	w := newEnv(t, envConfig{})
	reads := newCountedSnapshots(w)
	cfg.Authenticator = authtest.None(t, "default")
	edge, err := httpedge.New(w.log, reads, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return w, reads, edge
}

func getPage(ctx context.Context, edge *httpedge.Edge, path string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	edge.ServeHTTP(rec, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
	return rec
}

// TestParallelReadsOfOnePage checks that equal requests at the same time cost one read, that those of a later position do not get its result, and that the
// first client may disconnect.
func TestParallelReadsOfOnePage(t *testing.T) {
	for _, path := range []string{"snapshot", "snapshot?messages=3", "messages?limit=3", "tree"} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, reads, edge := pageEdge(t, httpedge.Config{})
				run := func(n int) {
					w.log.Append(s1, chunk.TypeRunStarted, fmt.Sprintf(`"runId":"r%d","epoch":1,"mode":"execute","input":[{"content":"hello %d"}]`, n, n))
					w.log.Append(s1, chunk.TypeStreamEnd, "")
				}
				run(1)
				var group sync.WaitGroup
				first, disconnect := context.WithCancel(t.Context())
				group.Go(func() { getPage(first, edge, "/v1/sessions/s1/"+path) })
				synctest.Wait()
				get := func(want string) {
					group.Go(func() {
						if rec := getPage(t.Context(), edge, "/v1/sessions/s1/"+path); rec.Code != http.StatusOK || path != "tree" && !strings.Contains(rec.Body.String(), want) {
							t.Errorf("%d %s, want %q", rec.Code, rec.Body, want)
						}
					})
				}
				for range 199 {
					get("hello 1")
				}
				synctest.Wait()
				disconnect()
				synctest.Wait()
				run(2)
				for range 50 {
					get("hello 2")
				}
				synctest.Wait()
				if n := reads.reads.Load(); n != 2 {
					t.Errorf("%d reads, want one for each position", n)
				}
				close(reads.release)
				group.Wait()
			})
		})
	}
}

// TestSurfacePages checks that a surface's requests with an equal version share one load, that another version loads again, and that a problem is the surface's.
func TestSurfacePages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, edge := pageEdge(t, httpedge.Config{})
		pages, release := edge.Shared().Pages, make(chan struct{})
		var loads atomic.Int64
		var group sync.WaitGroup
		serve := func(version int, fail error) {
			group.Go(func() {
				rec := httptest.NewRecorder()
				p := pages.Serve(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), s1, version, func(context.Context) ([]byte, error) {
					loads.Add(1)
					<-release
					return fmt.Appendf(nil, `{"version":%d}`, version), fail
				}, func(err error) *httpkit.Problem {
					return &httpkit.Problem{Status: http.StatusTeapot, Detail: err.Error()}
				})
				switch want := fmt.Sprintf(`{"version":%d}`, version); {
				case fail != nil:
					if p == nil || p.Status != http.StatusTeapot || p.Detail != fail.Error() {
						t.Errorf("version %d: %+v, want the problem of %v", version, p, fail)
					}
				case p != nil || rec.Body.String() != want:
					t.Errorf("version %d: %q, %+v, want %s", version, rec.Body, p, want)
				}
			})
		}
		for range 100 {
			serve(1, nil)
			serve(2, nil)
			serve(3, errors.New("cannot load"))
		}
		synctest.Wait()
		if n := loads.Load(); n != 3 {
			t.Errorf("%d loads, want one for each version", n)
		}
		close(release)
		group.Wait()
	})
}

// TestReadEndsWithTheLastClient checks that a read ends when no client waits for it, and that the next request reads again.
func TestReadEndsWithTheLastClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, reads, edge := pageEdge(t, httpedge.Config{})
		w.log.Append(s1, chunk.TypeStreamEnd, "")
		ctx, disconnect := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() { getPage(ctx, edge, "/v1/sessions/s1/snapshot") })
		}
		synctest.Wait()
		disconnect()
		synctest.Wait()
		if n := reads.running.Load(); n != 0 {
			t.Errorf("%d reads without a client", n)
		}
		close(reads.release)
		if rec := getPage(t.Context(), edge, "/v1/sessions/s1/snapshot"); rec.Code != http.StatusOK {
			t.Errorf("the next request: %d", rec.Code)
		}
		group.Wait()
	})
}
