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
	besideInspectors = 200
	besideFollowers  = 1_000
	besideSessions   = 100
	besidePace       = 500 * time.Millisecond // of each session
	besideRounds     = 6
)

// Two hundred open pages of the inspector, each with the list and a session, do not delay the streams of a thousand followers of the same edge. Times with and without the
// pages are measured in turn, because other load on the machine changes them.
func TestInspectorsBesideFollowers(t *testing.T) {
	raiseDescriptors(t, besideFollowers+4*besideInspectors)
	server := natstest.StartProcess(t)
	rec := startWriters(t, server.URL, besideSessions, besidePace)
	projector := newEdge(t, server.URL)
	projector.args = []string{"projector"}
	projector.start(t)
	edge := startEdge(t, server.URL)
	var took lateness
	followers := rec.startReaders(t, edge.addr, besideFollowers, took.watch)
	followers.awaitAll(t)

	var ratios, alone, beside, heaps []float64
	for n := range besideRounds {
		var p99 [2]time.Duration // without and with the pages
		for i := range p99 {
			with := i != n%2 // the order alternates
			stop := func() {}
			if with {
				stop = openInspectors(t, edge.addr, rec)
			}
			took.forget()
			resident := watchMemory(t, edge, 8*time.Second, &took)
			late := took.p99()
			heap := edge.metric(t, "go_memstats_heap_inuse_bytes")
			stop()
			t.Logf("with pages %t: p99 %s, heap %.0f MiB, resident %d MiB", with, late, heap/(1<<20), resident>>20)
			if with {
				p99[1], beside, heaps = late, append(beside, float64(late.Milliseconds())), append(heaps, heap/(1<<20))
			} else {
				p99[0], alone = late, append(alone, float64(late.Milliseconds()))
			}
		}
		ratios = append(ratios, float64(p99[1])/float64(max(p99[0], soonEnough)))
	}
	for _, list := range [][]float64{ratios, alone, beside, heaps} {
		slices.Sort(list)
	}
	t.Logf("medians: p99 %.0f ms alone, %.0f ms beside %d pages, ratio %.2f (%.2f to %.2f); heap of the edge beside them %.0f MiB",
		alone[len(alone)/2], beside[len(beside)/2], besideInspectors, ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1], heaps[len(heaps)/2])
	if median := ratios[len(ratios)/2]; median > 2 {
		t.Errorf("the p99 beside the pages is %.1f times the one without", median)
	}
	followers.kept = sseEvent.hashed
	followers.checkAll(t)
}

// openInspectors opens the pages, waits until each has its list and its stream, and returns the function that closes them.
func openInspectors(t *testing.T, addr string, rec *recorders) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	transport := &http.Transport{MaxIdleConnsPerHost: 2 * besideInspectors}
	page := &inspectorPage{client: &http.Client{Transport: transport}, base: "http://" + addr, open: make(chan struct{}, 2*besideInspectors)}
	var pages errgroup.Group
	for i := range besideInspectors {
		pages.Go(func() error { return page.list(ctx, 2*time.Second*time.Duration(i)/besideInspectors) })
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
