package httpedge_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
)

// sessionInPath is the expression of docs/guides/scale.md.
var sessionInPath = regexp.MustCompile(`^/(v1/sessions|api/chat)/([^/]+)`)

// hashingBalancer sends each session to one edge, by consistent hashing: another set of edges moves only the sessions of those that are not in it any more.
type hashingBalancer struct {
	mu    sync.Mutex
	edges []string // URLs
}

func (b *hashingBalancer) set(edges ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.edges = edges
}

func (b *hashingBalancer) edgeOf(path string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	session := sessionInPath.FindStringSubmatch(path)[2]
	return slices.MaxFunc(b.edges, func(x, y string) int { return strings.Compare(weight(x, session), weight(y, session)) })
}

func weight(edge, session string) string {
	h := fnv.New64a()
	h.Write([]byte(edge + " " + session))
	return fmt.Sprintf("%016x", h.Sum64())
}

// TestSessionsStayOnOneEdge has three clients for each of twelve sessions behind a balancer that hashes the session: each session is in the memory of one edge. When an edge
// fails, its clients continue on the others without a gap, and the sessions of the others stay.
func TestSessionsStayOnOneEdge(t *testing.T) {
	log := newLog()
	var edges []*httpedge.Edge
	var sites []*httptest.Server
	var urls []string
	for range 3 {
		edge, err := httpedge.New(log, newSnapshots(log, nil), httpedge.Config{Authenticator: authtest.None(t, "default"), RetryDelay: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		site := httptest.NewServer(edge)
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() {
			if err := edge.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		t.Cleanup(func() {
			site.CloseClientConnections()
			site.Close()
			cancel()
			running.Wait()
		})
		edges, sites, urls = append(edges, edge), append(sites, site), append(urls, site.URL)
	}
	balancer := &hashingBalancer{edges: urls}
	front := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			to, err := url.Parse(balancer.edgeOf(r.In.URL.Path))
			if err != nil {
				t.Error(err)
			}
			r.SetURL(to)
		},
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	})
	defer front.Close()

	const sessions, clients = 12, 3
	session := func(n int) chunk.Session { return chunk.RootSession("default", fmt.Sprint("s", n)) }
	for n := range sessions {
		memlog.AppendRunStarted(log, session(n))
		log.Append(session(n), chunk.TypeTextDelta, `"delta":"1"`)
	}
	var first, all sync.WaitGroup
	first.Add(sessions * clients)
	for n := range sessions {
		for range clients {
			all.Go(func() {
				if err := readDeltas(t.Context(), front.URL+"/v1/sessions/"+session(n).ID+"/events", first.Done, 2); err != nil {
					t.Errorf("%s: %v", session(n), err)
				}
			})
		}
	}
	first.Wait()
	topics := func(of ...*httpedge.Edge) (counts []int, total int) {
		for _, e := range of {
			n := e.Shared().Hub.Stats().Topics
			counts, total = append(counts, n), total+n
		}
		return counts, total
	}
	before, total := topics(edges...)
	if total != sessions {
		t.Errorf("sessions on the edges: %v, want %d together", before, sessions)
	}
	balancer.set(urls[1:]...)
	sites[0].CloseClientConnections()
	for n := range sessions {
		log.Append(session(n), chunk.TypeTextDelta, `"delta":"2"`)
		log.Append(session(n), chunk.TypeStreamEnd, "")
	}
	all.Wait()
	if after, total := topics(edges[1:]...); total != sessions || after[0] < before[1] || after[1] < before[2] {
		t.Errorf("sessions on the other edges: %v, want %d together, and at least %v", after, sessions, before[1:])
	}
}

// readDeltas reads the text of a session, over as many connections as it takes, and checks that it is the numbers 1 to n.
func readDeltas(ctx context.Context, from string, first func(), n int) error {
	lastID, id, got := "", "", 0
	for ctx.Err() == nil && got < n {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
		if err != nil {
			return err
		}
		if lastID != "" {
			req.Header.Set("Last-Event-ID", lastID)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			line := lines.Text()
			if next, ok := strings.CutPrefix(line, "id: "); ok {
				id = next
			}
			if strings.HasPrefix(line, "data: ") {
				lastID = id
			}
			if !strings.Contains(line, `"delta":"`) {
				continue
			}
			if got++; !strings.Contains(line, fmt.Sprintf(`"delta":"%d"`, got)) {
				return fmt.Errorf("got %s, want %d", line, got)
			}
			if got == 1 {
				first()
			}
		}
		if err := resp.Body.Close(); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return errors.New("not complete when the test ended")
	}
	return nil
}
