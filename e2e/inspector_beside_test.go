//go:build e2e && soak

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

const (
	besideFollowers = 1_000
	besideSessions  = 100
	besidePace      = 500 * time.Millisecond // of each session
	besideRounds    = 6
)

// Open pages of the inspector, each with the list and a session, do not delay the streams of a thousand followers of the same edge: ten by at most a tenth, two hundred by at
// most the time again. Times with and without the pages are measured in turn, because other load on the machine changes them.
func TestInspectorsBesideFollowers(t *testing.T) {
	pages := [...]int{0, 10, 200}
	most := [...]float64{1, 1.1, 2} // ratio of the p99
	raiseDescriptors(t, uint64(besideFollowers+4*pages[2]))
	server := natstest.StartProcess(t)
	rec := startWriters(t, server.URL, besideSessions, besidePace)
	projector := newEdge(t, server.URL)
	projector.args = []string{"projector"}
	projector.start(t)
	edge := startEdge(t, server.URL)
	var took lateness
	followers := rec.startReaders(t, edge.addr, besideFollowers, took.watch)
	followers.awaitAll(t)

	var ratios, times, heaps [len(pages)][]float64
	for n := range besideRounds {
		var p99 [len(pages)]time.Duration
		for i := range pages {
			i = (i + n) % len(pages) // the order changes
			stop := func() {}
			if pages[i] > 0 {
				stop = openInspectors(t, edge.addr, rec, pages[i])
			}
			took.forget()
			resident := watchMemory(t, edge, 8*time.Second, &took)
			p99[i] = took.p99()
			heap := edge.metric(t, "go_memstats_heap_inuse_bytes")
			stop()
			t.Logf("with %d pages: p99 %s, heap %.0f MiB, resident %d MiB", pages[i], p99[i], heap/(1<<20), resident>>20)
			times[i], heaps[i] = append(times[i], float64(p99[i].Milliseconds())), append(heaps[i], heap/(1<<20))
		}
		for i := range pages {
			ratios[i] = append(ratios[i], float64(p99[i])/float64(max(p99[0], soonEnough)))
		}
	}
	median := func(list []float64) float64 {
		slices.Sort(list)
		return list[len(list)/2]
	}
	for i, n := range pages {
		ratio := median(ratios[i])
		t.Logf("medians with %d pages: p99 %.0f ms, ratio %.2f (%.2f to %.2f); heap of the edge %.0f MiB", n, median(times[i]), ratio, ratios[i][0], ratios[i][len(ratios[i])-1], median(heaps[i]))
		if ratio > most[i] {
			t.Errorf("the p99 beside %d pages is %.2f times the one without, at most %.1f", n, ratio, most[i])
		}
	}
	followers.kept = sseEvent.hashed
	followers.checkAll(t)
}

// openInspectors opens the pages, waits until each has its list and its stream, and returns the function that closes them.
func openInspectors(t *testing.T, addr string, rec *recorders, n int) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	transport := &http.Transport{MaxIdleConnsPerHost: 2 * n}
	page := &inspectorPage{client: &http.Client{Transport: transport}, base: "http://" + addr, open: make(chan struct{}, 2*n)}
	var pages errgroup.Group
	for i := range n {
		pages.Go(func() error { return page.list(ctx, 2*time.Second*time.Duration(i)/time.Duration(n)) })
		pages.Go(func() error { return page.session(ctx, rec.writers[i%len(rec.writers)].root.ID) })
	}
	stop = func() {
		cancel()
		err := pages.Wait()
		transport.CloseIdleConnections()
		if n := page.refused.Load(); n > 0 {
			t.Logf("%d requests of the pages had the status 503", n)
		}
		if err != nil {
			t.Error(err)
		}
	}
	for range cap(page.open) {
		select {
		case <-page.open:
		case <-time.After(time.Minute):
			stop()
			t.Fatal("timeout: the pages are not open within a minute")
		}
	}
	return stop
}

// inspectorPage requests what the page of the inspector requests.
type inspectorPage struct {
	client  *http.Client
	base    string
	open    chan struct{} // receives for each first response
	refused atomic.Int64  // requests for which the server had no time
}

// list requests the list every two seconds after phase, and the totals every fifth time.
func (p *inspectorPage) list(ctx context.Context, phase time.Duration) error {
	wait := time.NewTimer(phase)
	defer wait.Stop()
	tags := map[string]string{}
	for n := 0; ; n++ {
		select {
		case <-wait.C:
			wait.Reset(2 * time.Second)
		case <-ctx.Done():
			return nil
		}
		paths := []string{"/v1/sessions?"}
		if n%5 == 0 {
			paths = append(paths, "/v1/sessions/summary?")
		}
		for _, path := range paths {
			tag, err := p.get(ctx, path, tags[path])
			if err != nil {
				return err
			}
			tags[path] = tag
		}
		if n == 0 {
			p.open <- struct{}{}
		}
	}
}

// session reads the records of a session from the first one, and follows it.
func (p *inspectorPage) session(ctx context.Context, id string) error {
	resp, err := p.send(ctx, "/v1/sessions/"+id+"/events?after=0&dialect=records", "")
	if err != nil {
		return unlessClosed(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the stream of %s: status %d", id, resp.StatusCode)
	}
	p.open <- struct{}{}
	_, err = io.Copy(io.Discard, resp.Body)
	return unlessClosed(ctx, errors.Join(fmt.Errorf("the stream of %s ended", id), err))
}

// unlessClosed returns the error of a page that was not closed.
func unlessClosed(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// get requests a path, and returns the tag of what the page has then.
func (p *inspectorPage) get(ctx context.Context, path, tag string) (string, error) {
	resp, err := p.send(ctx, path, tag)
	if err != nil {
		return "", unlessClosed(ctx, err)
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.Header.Get("ETag"), unlessClosed(ctx, err)
}

func (p *inspectorPage) send(ctx context.Context, path, tag string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+path, nil)
	if err != nil {
		return nil, err
	}
	if tag != "" {
		req.Header.Set("If-None-Match", tag)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusServiceUnavailable { // the page asks again
		p.refused.Add(1)
	} else if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNotModified {
		body, err := io.ReadAll(resp.Body)
		return nil, errors.Join(fmt.Errorf("%s: status %d: %s", path, resp.StatusCode, body), err, resp.Body.Close())
	}
	return resp, nil
}
