//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/posttest"
)

var (
	oidcLoad = flag.Duration("oidc-load", 20*time.Second, "how long 500 clients follow with tokens of a few seconds in TestOIDC")
	oidcAway = flag.Duration("oidc-away", 5*time.Second, "how long the provider is away in TestOIDC")
)

const (
	oidcSessions = 50
	oidcClients  = 500

	// refetch is how often an edge loads the keys of a provider for an unknown key id, at most.
	refetch = time.Minute
)

// A provider of OpenID Connect runs as a process, and an edge accepts its access tokens. Users log in and use a chat; 500 clients follow with tokens that are
// valid for seven seconds while the keys of the provider are replaced; the provider is away, and comes back with another key.
func TestOIDC(t *testing.T) {
	t.Parallel() // most of it is waiting
	p := startProvider(t)
	server := natstest.StartProcess(t)
	rec := startWriters(t, server.URL, oidcSessions, 250*time.Millisecond)
	edge := startEdge(t, server.URL, "--auth", p.authFile(t), "--chat-agent", "teller")
	started := time.Now() // the edge has loaded the keys
	projector := newEdge(t, server.URL)
	projector.args = []string{"projector"}
	projector.start(t)
	worker := startWorkerProcess(t, workerJob{URL: server.URL})
	t.Cleanup(worker.kill)
	e := &oidcEnv{p: p, edge: edge, url: "http://" + edge.addr}

	e.checkLogin(t)
	published := e.checkLoad(t, rec)
	e.checkAway(t, startWritersOn(t, server.URL, writerConfig{prefix: "away", sessions: 20, pace: 250 * time.Millisecond}))

	// The next key of the provider is unknown to the edge. It is published for a minute before it signs, so the edge can load it with the first token.
	<-time.After(time.Until(later(started, published).Add(refetch)))
	p.rotate(t)
	e.mustGet(t, p.mustLogin(t, "app", "reader-late").access, "/v1/sessions", http.StatusOK)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// oidcEnv is an edge with a provider.
type oidcEnv struct {
	p    *provider
	edge *edgeProcess
	url  string
}

// do makes a request with a token, and returns the status and the body. The body is read up to the first line that has until, or to its end if until is empty.
func (e *oidcEnv) do(t *testing.T, token, method, path, body, until string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, e.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var text strings.Builder
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadString('\n')
		text.WriteString(line)
		if errors.Is(err, io.EOF) || err == nil && until != "" && strings.Contains(line, until) {
			return resp.StatusCode, text.String()
		}
		if err != nil {
			t.Fatalf("%s: %v after\n%s", path, err, &text)
		}
	}
}

func (e *oidcEnv) mustGet(t *testing.T, token, path string, want int) string {
	t.Helper()
	status, body := e.do(t, token, http.MethodGet, path, "", "")
	if status != want {
		t.Errorf("GET %s: status %d, want %d: %s", path, status, want, body)
	}
	return body
}

// checkLogin has a user log in, chat, list and follow the session, which another user does not see. Tokens for others are refused.
func (e *oidcEnv) checkLogin(t *testing.T) {
	t.Helper()
	owner, another := e.p.mustLogin(t, "app", "member-owner"), e.p.mustLogin(t, "app", "member-another")
	message := `{"id":"mine","trigger":"submit-message","messages":[` + posttest.User("u1", "Tell!") + `]}`
	if status, body := e.do(t, owner.access, http.MethodPost, "/api/chat", message, "1.0"); status != http.StatusOK || !strings.Contains(body, "1.0") {
		t.Fatalf("chat: status %d: %s", status, body)
	}
	if _, body := e.do(t, owner.access, http.MethodGet, "/v1/sessions/mine/events", "", "1.1"); !strings.Contains(body, "1.1") {
		t.Errorf("the stream lacks the answer: %s", body)
	}
	natstest.Eventually(t, "the session in the list of its owner", func(context.Context) error {
		if body := e.mustGet(t, owner.access, "/v1/sessions", http.StatusOK); !strings.Contains(body, `"mine"`) || strings.Contains(body, `"s0"`) {
			return fmt.Errorf("the list is %s", body)
		}
		return nil
	})
	if body := e.mustGet(t, another.access, "/v1/sessions", http.StatusOK); strings.Contains(body, `"mine"`) {
		t.Errorf("another user has the session in its list: %s", body)
	}
	e.mustGet(t, another.access, "/v1/sessions/mine/snapshot", http.StatusNotFound)
	reader := e.p.mustLogin(t, "app", "reader-1")
	e.mustGet(t, reader.access, "/v1/sessions/mine/snapshot", http.StatusOK)
	if status, body := e.do(t, reader.access, http.MethodPost, "/api/chat", message, ""); status != http.StatusForbidden {
		t.Errorf("a chat without the right: status %d: %s", status, body)
	}
	e.mustGet(t, e.p.mustLogin(t, "other", "reader-1").access, "/v1/sessions", http.StatusUnauthorized)
	e.mustGet(t, reader.id, "/v1/sessions", http.StatusUnauthorized)
	e.mustGet(t, reader.access[:len(reader.access)-8]+"AAAAAAAA", "/v1/sessions", http.StatusUnauthorized)
}

// checkLoad has 500 clients follow for oidcLoad. Their streams end when their tokens expire, and each reconnects with a fresh token and its cursor. All
// responses are 200 until the session ends. Meanwhile the provider signs with its next key; it returns when the one after that was published.
func (e *oidcEnv) checkLoad(t *testing.T, rec *recorders) time.Time {
	t.Helper()
	arrivals := &arrivals{}
	readers := rec.startReaders(t, e.edge.addr, oidcClients, func(i int, f *follower) {
		f.onEvent = f.keepHash
		f.token = arrivals.observe(e.p.renewed(fmt.Sprintf("reader-%d", i)))
	})
	readers.kept = sseEvent.hashed
	readers.awaitAll(t)
	attached, cpu := time.Now(), e.edge.metric(t, "process_cpu_seconds_total")
	<-time.After(*oidcLoad / 4)
	e.p.rotate(t)
	published := time.Now()
	<-time.After(*oidcLoad * 3 / 4)
	took := time.Since(attached)
	cpu = e.edge.metric(t, "process_cpu_seconds_total") - cpu
	resident := residentBytes(t, e.edge.cmd.Process.Pid)
	arrived, reconnects := arrivals.between(time.Time{}, attached), arrivals.between(attached, time.Now())
	readers.checkAll(t)
	t.Logf("%d clients reconnected %d times in %s; the edge used %.2f of a core and had %.1f MiB", oidcClients, len(reconnects), took.Round(time.Millisecond),
		cpu/took.Seconds(), float64(resident)/(1<<20))
	checkSpread(t, arrived, reconnects, took)
	return published
}

// renewed returns a source of tokens of a user of app-short: it logs in once, and gets a fresh token for each connection.
func (p *provider) renewed(user string) func(context.Context) (string, error) {
	var l *login
	return func(ctx context.Context) (_ string, err error) {
		if l == nil {
			l, err = p.login(ctx, "app-short", user)
		} else {
			err = l.renew(ctx)
		}
		if err != nil {
			return "", fmt.Errorf("token of %s: %w", user, err)
		}
		return l.access, nil
	}
}

// arrivals are the times at which clients connect.
type arrivals struct {
	mu   sync.Mutex // guards list
	list []time.Time
}

func (a *arrivals) observe(source func(context.Context) (string, error)) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		token, err := source(ctx)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.list = append(a.list, time.Now())
		return token, err
	}
}

func (a *arrivals) between(from, to time.Time) (list []time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, at := range a.list {
		if at.After(from) && at.Before(to) {
			list = append(list, at)
		}
	}
	slices.SortFunc(list, time.Time.Compare)
	return list
}

// checkSpread checks that clients do not reconnect together. Streams end before the expiry, and clients wait, for times with random parts, so the reconnects
// spread over the lifetime of a token. The first connections come as fast as the provider logs the users in. The first reconnects can come faster by a third,
// because exp is in whole seconds: the streams with tokens of one second end within 0.75 seconds. The clients begin together, and each round adds a standard deviation
// of 0.4 seconds (0.25 of the end of the stream, 0.29 of the whole seconds): after 14 rounds, the middle of the last quarter, 1.4 of the 7 seconds of a token. The
// peak of that distribution is 2.4 times the mean of 16, about 40, and four standard deviations of a count of 40 are another 1.6 times the mean.
func checkSpread(t *testing.T, arrived, reconnects []time.Time, took time.Duration) {
	t.Helper()
	if len(reconnects) == 0 {
		t.Fatal("no client reconnected")
	}
	mean := float64(len(reconnects)) * spreadWindow.Seconds() / took.Seconds()
	first, all := peak(arrived), peak(reconnects)
	end := reconnects[len(reconnects)-1].Add(-took / 4)
	last := peak(reconnects[slices.IndexFunc(reconnects, end.Before):])
	t.Logf("in any %s: at most %d first connections, %d reconnects, %d of the last quarter, on average %.1f", spreadWindow, first, all, last, mean)
	if most := max(first*3/2, int(3*mean)); all > most {
		t.Errorf("%d clients reconnected within %s, want at most %d", all, spreadWindow, most)
	}
	if rounds := float64(len(reconnects)) / oidcClients; rounds < took.Seconds()/15 {
		t.Errorf("the clients reconnected %.1f times in %s: their tokens do not expire", rounds, took)
	} else if rounds > 10 && float64(last) > 4*mean {
		t.Errorf("%d clients reconnected within %s after %.0f rounds, want at most %.0f", last, spreadWindow, rounds, 4*mean)
	}
}

const spreadWindow = 250 * time.Millisecond

// peak returns the largest number of sorted times in a window.
func peak(times []time.Time) (most int) {
	from := 0
	for i, at := range times {
		for at.Sub(times[from]) > spreadWindow {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}

// checkAway has clients follow while the provider is away. Their tokens, and those that the edge has not seen, are verified with the keys that it has.
func (e *oidcEnv) checkAway(t *testing.T, rec *recorders) {
	t.Helper()
	tokens := make(chan string, 150)
	for i := range cap(tokens) {
		tokens <- e.p.mustLogin(t, "app", fmt.Sprintf("reader-away-%d", i)).access
	}
	next := func(context.Context) (string, error) { return <-tokens, nil }
	readers := rec.startReaders(t, e.edge.addr, 50, func(_ int, f *follower) { f.token = next })
	readers.awaitAll(t)
	e.p.kill(t)
	for until := time.Now().Add(*oidcAway); time.Now().Before(until); {
		<-time.After(*oidcAway / 40)
		e.mustGet(t, <-tokens, "/v1/sessions", http.StatusOK) // a token that the edge has not seen
	}
	rec.awaitMore(t)
	readers.awaitAll(t)
	e.p.start(t)
	e.mustGet(t, e.p.mustLogin(t, "app", "reader-back").access, "/v1/sessions", http.StatusOK)
	readers.checkAll(t)
	for _, f := range readers.followers {
		if f.statuses[http.StatusOK] != 1 {
			t.Errorf("%s: statuses %v, want one stream", f.root.ID, f.statuses)
		}
	}
}
