package main

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/producers"
)

// headerTime is a response of which the time of its header counts.
type headerTime struct {
	header http.Header
	cancel context.CancelFunc
	at     time.Time
	status int
}

func (w *headerTime) Header() http.Header { return w.header }

func (w *headerTime) WriteHeader(status int) {
	if w.at.IsZero() {
		w.at, w.status = time.Now(), status
		w.cancel()
	}
}

func (w *headerTime) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return len(p), nil
}

func (w *headerTime) FlushError() error { w.WriteHeader(http.StatusOK); return nil }

func (w *headerTime) SetWriteDeadline(time.Time) error { return nil }

func (w *headerTime) SetReadDeadline(time.Time) error { return nil }

func (w *headerTime) EnableFullDuplex() error { return nil }

// timed serves a request of a route in this process, after a delay, and returns the time to the header of the response in microseconds.
func (m *matrix) timed(t *testing.T, p httpkit.Policy, id, token string, delay time.Duration) float64 {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := m.request(ctx, p, id, token)
	r.RemoteAddr = "127.0.0.1:1"
	w := &headerTime{header: http.Header{}, cancel: cancel}
	began := time.Now()
	for time.Since(began) < delay { // a sleep would be longer by up to a millisecond
	}
	func() {
		defer func() { _ = recover() }() // an aborted stream
		m.edge.server.Handler.ServeHTTP(w, r)
	}()
	if w.at.IsZero() {
		t.Fatalf("%s %s: no response", p.Method, p.Path)
	}
	return float64(w.at.Sub(began).Nanoseconds()) / 1e3
}

// difference is the times of two kinds of requests, measured in pairs.
type difference struct {
	pairs  int
	z      float64 // of the signed ranks of the differences of the pairs: normal with variance 1 if the two kinds take the same time
	median float64 // of both together, in us
	shift  float64 // median of the differences, in us
	spread float64 // standard deviation of the differences by their median absolute deviation, in us
}

// compare takes pairs of requests, each in random order, so that a change of the load affects both kinds: at least a number of pairs, and as many as find a quarter of
// the time of a request, up to maxPairs. On a busy machine these are more. Their number depends on the spread and not on the difference.
func compare(least int, a, b func() float64) difference {
	var deltas, all []float64
	for n := least; ; n = min(2*n, maxPairs) {
		for len(deltas) < n {
			var x, y float64
			if rand.IntN(2) == 0 {
				x = a()
				y = b()
			} else {
				y = b()
				x = a()
			}
			deltas, all = append(deltas, x-y), append(all, x, y)
		}
		d := difference{pairs: n, z: signedRanks(deltas), median: medianOf(all), shift: medianOf(deltas)}
		around := make([]float64, n)
		for i := range deltas {
			around[i] = math.Abs(deltas[i] - d.shift)
		}
		d.spread = 1.4826 * medianOf(around)
		if d.detectable() <= d.median/4 || n >= maxPairs {
			return d
		}
	}
}

func medianOf(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// signedRanks is the statistic of Wilcoxon. It does not depend on how far outliers are out, and there are always some: collections of garbage.
func signedRanks(deltas []float64) float64 {
	sorted := slices.Clone(deltas)
	slices.SortFunc(sorted, func(x, y float64) int { return cmp.Compare(math.Abs(x), math.Abs(y)) })
	sum := 0.0
	for i, d := range sorted {
		sum += math.Copysign(float64(i+1), d)
	}
	n := float64(len(deltas))
	return sum / math.Sqrt(n*(n+1)*(2*n+1)/6)
}

const (
	timingPairs = 120
	maxPairs    = 4 * timingPairs

	// timingLimit is exceeded by chance in 5 of 10,000 comparisons of two kinds that take the same time.
	timingLimit = 3.5
)

// differs reports whether two kinds of requests take different times. A comparison over the limit is repeated with at least twice as many new pairs, and has to exceed
// the limit in the same direction again. So chance makes it true once in ten million, and a difference that the first comparison finds is found by the second one
// too, which has more power: it is not a retry until the test passes.
func differs(t *testing.T, name string, a, b func() float64) bool {
	t.Helper()
	first := compare(timingPairs, a, b)
	t.Logf("%-60s z %5.1f of %4d pairs, median %5.0f us, difference %5.1f us, found with certainty from %3.0f us on",
		name, first.z, first.pairs, first.median, first.shift, first.detectable())
	if math.Abs(first.z) <= timingLimit {
		return false
	}
	second := compare(2*first.pairs, a, b)
	t.Logf("%-60s z %5.1f in the second comparison, difference %5.1f us", name, second.z, second.shift)
	return math.Abs(second.z) > timingLimit && math.Signbit(first.z) == math.Signbit(second.z)
}

// detectable returns the difference that as many pairs find with a probability of 0.999: z then is timingLimit and 3.1 standard deviations on average. The signed
// ranks have 0.977 of the effect that a difference of normal times would have.
func (d difference) detectable() float64 {
	return (timingLimit + 3.1) * d.spread / 0.977 / math.Sqrt(float64(d.pairs))
}

// findsPlanted reports whether a comparison finds a delay: a quarter of the time of a request, or more if the machine is so busy that maxPairs do not find that. If
// the comparison does not find it, the delay is set to twice as long, up to four times, because the load may have grown since it was chosen.
func findsPlanted(t *testing.T, name string, delayed func(time.Duration) float64, absent func() float64) bool {
	t.Helper()
	d := compare(timingPairs, absent, absent)
	delay := time.Duration(max(d.median/4, d.detectable()) * float64(time.Microsecond))
	for range 5 {
		if differs(t, fmt.Sprintf("%s, planted %s", name, delay), func() float64 { return delayed(delay) }, absent) {
			return true
		}
		delay *= 2
	}
	return false
}

// A session that the client must not know takes the time of one that does not exist, on every route that names one. TestCrossMatrix has the responses. Sessions
// are hidden from clients with other ids, of other tenants and without rights; TestSessionsOfOtherOwnersTakeTheSameTime has clients with own sessions.
//
// The test has power: the same comparison finds a difference of a quarter of the time of a request.
func TestHiddenSessionsTakeTheSameTime(t *testing.T) {
	m := newMatrix(t)
	known, unknown := m.longSession("s-known", 1000), "s-other"
	m.project("acme", known)
	token := func(tenant string, scopes auth.Scope, sessions auth.Sessions) string {
		return m.issuer.Token(auth.Grant{Tenant: tenant, Subject: "bob", Scopes: scopes, Sessions: sessions}, time.Hour, nil)
	}
	others := auth.Sessions{IDs: []string{"another"}}
	credentials := map[string]string{
		"other ids":    token("acme", auth.AllScopes, others),
		"other tenant": token("umbrella", auth.AllScopes, auth.Sessions{All: true}),
		"no right":     token("acme", auth.ScopeAdmin, others),
	}
	plants := 0
	for _, p := range m.edge.edge.Policies() {
		if p.Public || !ofSession(p) {
			continue
		}
		for name, credential := range credentials {
			if starts(p) && name == "other tenant" {
				continue // the first request starts a session in the tenant of the client
			}
			hidden := func() float64 { return m.timed(t, p, known, credential, 0) }
			absent := func() float64 { return m.timed(t, p, unknown, credential, 0) }
			route := fmt.Sprintf("%s %s, %s", p.Method, p.Path, name)
			if differs(t, route, hidden, absent) {
				t.Errorf("%s: a hidden session takes another time than an unknown one", route)
			}
			if name != "other ids" || p.Method != http.MethodGet || plants == 3 {
				continue
			}
			plants++
			if !findsPlanted(t, route, func(extra time.Duration) float64 { return m.timed(t, p, known, credential, extra) }, absent) {
				t.Errorf("%s: a difference is not found", route)
			}
		}
	}
	if plants != 3 {
		t.Errorf("a difference was planted in %d routes", plants)
	}
}

// A client with own sessions cannot tell by the time whether another user has a session, short or with 300 open calls, on the routes that start none. The projector
// has saved the sessions.
func TestSessionsOfOtherOwnersTakeTheSameTime(t *testing.T) {
	m := newMatrix(t)
	unknown := "other-" + crand.Text()
	hidden := map[string]string{"short": m.session("short-" + crand.Text()), "open calls": m.openCalls("calls-"+crand.Text(), 300)}
	for _, id := range hidden {
		m.project("acme", id)
	}
	credential := m.issuer.Token(auth.Grant{Tenant: "acme", Subject: "bob", Scopes: auth.AllScopes, Sessions: auth.Sessions{Own: true}}, time.Hour, nil)
	plants := 0
	for _, p := range m.edge.edge.Policies() {
		if p.Public || !ofSession(p) || starts(p) {
			continue
		}
		absent := func() float64 { return m.timed(t, p, unknown, credential, 0) }
		for name, known := range hidden {
			route := fmt.Sprintf("%s %s, %s", p.Method, p.Path, name)
			if differs(t, route, func() float64 { return m.timed(t, p, known, credential, 0) }, absent) {
				t.Errorf("%s: a session of another owner takes another time than an unknown one", route)
			}
		}
		if p.Method != http.MethodGet || plants == 3 {
			continue
		}
		plants++
		delayed := func(extra time.Duration) float64 { return m.timed(t, p, hidden["open calls"], credential, extra) }
		if !findsPlanted(t, p.Method+" "+p.Path, delayed, absent) {
			t.Errorf("%s: a difference is not found", p.Path)
		}
	}
	if plants != 3 {
		t.Errorf("a difference was planted in %d routes", plants)
	}
}

// A later run of another user does not change the owner, and neither does a key of another user in the index of owners: the head has the owner, and it is that of
// the first run.
func TestOwnerIsOfTheFirstRun(t *testing.T) {
	m := newMatrix(t)
	id := m.session("s-first")
	m.project("acme", id)
	clients := map[string]string{}
	for _, user := range []string{"ann", "bob"} {
		clients[user] = m.issuer.Token(auth.Grant{Tenant: "acme", Subject: user, Scopes: auth.AllScopes, Sessions: auth.Sessions{Own: true}}, time.Hour, nil)
	}
	check := func(when string) {
		t.Helper()
		for _, p := range m.edge.edge.Policies() {
			if p.Public || p.Method != http.MethodGet || !p.NamesSessions {
				continue
			}
			unknown := m.send(t, p, "s-none", clients["bob"])
			if got := m.send(t, p, id, clients["bob"]); got != unknown {
				t.Errorf("%s, %s for bob: %+v, want %+v", when, p.Path, got, unknown)
			}
			if got := m.send(t, p, id, clients["ann"]); got == unknown && got.status != http.StatusNoContent {
				t.Errorf("%s, %s for ann: %+v", when, p.Path, got)
			}
		}
	}
	check("first run")
	run := m.startedBy(id, "bob")
	check("a run of bob is in the log")
	if err := run.End(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	store, err := jssnapshots.New(m.JS, jssnapshots.Config{})
	if err != nil {
		t.Fatal(err)
	}
	session := chunk.RootSession("acme", id)
	_, revision, err := store.Load(t.Context(), session)
	if err == nil {
		_, err = store.Save(t.Context(), m.Snapshot(session), revision)
	}
	if err != nil {
		t.Fatal(err)
	}
	check("a run of bob is in the head")
	other, err := store.OwnedByOther(t.Context(), session, "bob")
	if err != nil || !other {
		t.Errorf("the index has the session as one of others than bob: %t, %v", other, err)
	}
	// The key of bob is a copy of one of his own session.
	own := chunk.RootSession("acme", "s-bob")
	if err := m.startedBy(own.ID, "bob").End(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	m.project("acme", own.ID)
	kv, err := m.JS.KeyValue(t.Context(), "TR_SNAPSHOTS")
	if err != nil {
		t.Fatal(err)
	}
	filter, err := names.SnapshotOwnerKeys(own)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := kv.ListKeysFiltered(t.Context(), filter)
	if err != nil {
		t.Fatal(err)
	}
	for key := range keys.Keys() {
		if _, err := kv.Put(t.Context(), strings.Replace(key, own.ID, id, 1), nil); err != nil {
			t.Fatal(err)
		}
	}
	if other, err = store.OwnedByOther(t.Context(), session, "bob"); err != nil || other {
		t.Fatalf("the index has the key of bob: %t, %v", !other, err)
	}
	check("the index has a key of bob")
}

// longSession writes a session of ann with n pieces of text in turns.
func (m *matrix) longSession(id string, n int) string {
	m.t.Helper()
	run := m.started(id)
	for i := range n {
		body := chunk.Body(chunk.TextDelta{Delta: "word "})
		if i%10 == 0 {
			body = chunk.ToolStart{ToolCallID: fmt.Sprint(i), ToolName: "t", Arguments: chunk.Value(`{}`)}
		}
		if err := run.EmitBody(m.t.Context(), body); err != nil {
			m.t.Fatal(err)
		}
	}
	if err := run.End(m.t.Context(), nil); err != nil {
		m.t.Fatal(err)
	}
	return id
}

// openCalls writes a session of ann with n calls without a result.
func (m *matrix) openCalls(id string, n int) string {
	m.t.Helper()
	run := m.started(id)
	for i := range n {
		call := chunk.ToolStart{ToolCallID: fmt.Sprint("call-", i), ToolName: "t", Arguments: chunk.Value(`{"question":"` + strings.Repeat("x", 100) + `"}`)}
		if err := run.EmitBody(m.t.Context(), call); err != nil {
			m.t.Fatal(err)
		}
	}
	return id
}

// started starts a run of ann.
func (m *matrix) started(id string) *producers.Run {
	m.t.Helper()
	return m.startedBy(id, "ann")
}

func (m *matrix) startedBy(id, user string) *producers.Run {
	m.t.Helper()
	run, err := m.writer.Start(m.t.Context(), chunk.RootSession("acme", id), chunk.RunStarted{
		Mode: "execute", Input: []chunk.InputMessage{{Content: "the secret of ann"}}, By: &chunk.Principal{Subject: user},
	}, producers.AgentType("demo"))
	if err != nil {
		m.t.Fatal(err)
	}
	return run
}
