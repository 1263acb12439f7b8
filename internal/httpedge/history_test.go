package httpedge_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/projector/fold"
)

// moments is a session with a run that has ended and one that is running, with other sessions between its records: 1, 3, 5 and
// 7 are its own.
func moments(w *env) {
	w.log.Append(s1, chunk.TypeStreamEnd, "")
	w.log.Append(theRoot, chunk.TypeTextDelta, "")
	w.log.Append(s1, chunk.TypeCheckpointCreated, "")
	w.log.Append(theRoot, chunk.TypeTextDelta, "")
	w.log.Append(s1, chunk.TypeRunStarted, "")
	w.log.Append(theRoot, chunk.TypeTextDelta, "")
	w.log.Append(s1, chunk.TypeTextDelta, "")
	w.log.Append(theRoot, chunk.TypeTextDelta, "")
}

func TestHistoryQueries(t *testing.T) {
	for query, want := range map[string]string{
		"at=1":                                   `"streamSequence":1,`,
		"at=2":                                   `"streamSequence":1,`,
		"at=3":                                   `"streamSequence":1,`, // the checkpoint is in flight
		"at=3&partial=1":                         `"streamSequence":3,`,
		"at=6":                                   `"streamSequence":5,`, // of another session, but written
		"at=8":                                   `"streamSequence":5,`, // before the message in flight
		"at=6&partial=1":                         `"streamSequence":5,`,
		"at=8&partial=1":                         `"streamSequence":7,`,
		"at=":                                    `"streamSequence":5,`,
		"checkpoint=cp-3":                        `"streamSequence":3,`,
		"at=9":                                   `400 "code":"SEQUENCE_IN_FUTURE"`,
		"at=0":                                   `400 "code":"BAD_CURSOR"`,
		"at=-1":                                  `400 "code":"BAD_CURSOR"`,
		"at=01":                                  `400 "code":"BAD_CURSOR"`,
		"at=1-abc":                               `400 "code":"BAD_CURSOR"`,
		"at=x":                                   `400 "code":"BAD_CURSOR"`,
		"at=1&at=2":                              `400 "code":"BAD_PARAMETER"`,
		"at=1&checkpoint=cp-3":                   `400 "code":"BAD_PARAMETER"`,
		"checkpoint=cp-3&partial=1":              `400 "code":"BAD_PARAMETER"`,
		"checkpoint=" + strings.Repeat("x", 257): `400 "code":"BAD_PARAMETER"`,
		"checkpoint=cp-4":                        `404 "code":"CHECKPOINT_NOT_FOUND"`,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newEnv(t, envConfig{})
			moments(w)
			rec := w.record(http.MethodGet, "/v1/sessions/s1/snapshot?"+query, nil)
			got := rec.Body.String()
			if rec.Code != http.StatusOK {
				got = fmt.Sprint(rec.Code, " ", got)
			}
			for part := range strings.SplitSeq(want, " ") {
				if !strings.Contains(got, part) {
					t.Errorf("%s: got %s, want %s", query, got, want)
				}
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		moments(w)
		w.log.Expire(1)
		if rec := w.record(http.MethodGet, "/v1/sessions/s1/snapshot?at=3", nil); rec.Code != http.StatusGone || !strings.Contains(rec.Body.String(), `"HISTORY_EXPIRED"`) {
			t.Errorf("expired: %d %s", rec.Code, rec.Body)
		}
		if rec := w.record(http.MethodGet, "/v1/sessions/root/snapshot?at=1", nil); rec.Code != http.StatusNotFound || !strings.Contains(rec.Body.String(), `"STREAM_NOT_FOUND"`) {
			t.Errorf("before its first record: %d %s", rec.Code, rec.Body)
		}
	})
}

// long delays the fold of earlier states.
type long struct {
	snapshotsOf

	begun chan struct{}
}

func (l long) SnapshotAt(ctx context.Context, _ chunk.Session, _ chunk.Seq) (fold.Snapshot, error) {
	l.begun <- struct{}{}
	<-ctx.Done()
	return fold.Snapshot{}, ctx.Err()
}

// The fold of an earlier state has a time limit. One session has one such fold at a time, one tenant has two, and another tenant has one beside them.
func TestEarlierStatesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		slow := long{newSnapshots(w.log, nil), make(chan struct{})}
		edge, err := httpedge.New(w.log, slow, httpedge.Config{Authenticator: byTenant{}, HistoryTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		get := func(tenant, session string) *httptest.ResponseRecorder {
			rec, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/v1/sessions/"+session+"/snapshot?at=1", nil)
			r.Header.Set("Tenant", tenant)
			r.RemoteAddr = map[string]string{"hostile": alice, "normal": bob}[tenant]
			edge.ServeHTTP(rec, r)
			return rec
		}
		began := time.Now()
		answers := make(chan *httptest.ResponseRecorder)
		start := func(tenant, session string) {
			w.log.Append(chunk.RootSession(tenant, session), chunk.TypeTextDelta, "") // ?at=1 is not in the future
			go func() { answers <- get(tenant, session) }()
			select {
			case <-slow.begun:
			case rec := <-answers:
				t.Fatalf("%s of %s: %d %s", session, tenant, rec.Code, rec.Body)
			}
		}
		refused := func(tenant, session string, after time.Duration) {
			asked := time.Now()
			rec := get(tenant, session)
			if waited := time.Since(asked); waited != after {
				t.Errorf("%s of %s waited %s, want %s", session, tenant, waited, after)
			}
			if rec.Code != http.StatusServiceUnavailable || rec.Header().Get("Retry-After") == "" || !strings.Contains(rec.Body.String(), `"BUSY"`) {
				t.Errorf("%s of %s: %d %s", session, tenant, rec.Code, rec.Body)
			}
		}
		start("hostile", "s1")
		refused("hostile", "s1", 0)
		start("hostile", "s2")
		refused("hostile", "s3", time.Second) // for memory
		start("normal", "s1")
		refused("normal", "s2", time.Second)
		for range 3 {
			if rec := <-answers; rec.Code != http.StatusServiceUnavailable || !strings.Contains(rec.Body.String(), `"TAKES_TOO_LONG"`) {
				t.Errorf("%d %s", rec.Code, rec.Body)
			}
		}
		if took := time.Since(began); took != time.Minute+time.Second { // the last one began after the first wait
			t.Errorf("took %s", took)
		}
		start("hostile", "s3") // the next fold can start
		<-answers
	})
}

// While one tenant has the earlier states that it may have, which take as long as they may, another tenant gets its summary at once.
func TestEarlierStatesLeaveTheSummary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		slow := long{newSnapshots(w.log, nil), make(chan struct{})}
		edge, err := httpedge.New(w.log, slow, httpedge.Config{Authenticator: byTenant{}, ReadBytes: 16 << 20, Sessions: someSessions()})
		if err != nil {
			t.Fatal(err)
		}
		get := func(tenant, path string) *httptest.ResponseRecorder {
			rec, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/v1/sessions/"+path, nil)
			r.Header.Set("Tenant", tenant)
			r.RemoteAddr = map[string]string{"hostile": alice, "normal": bob}[tenant]
			edge.ServeHTTP(rec, r)
			return rec
		}
		var earlier sync.WaitGroup
		for _, session := range []string{"s1", "s2"} {
			w.log.Append(chunk.RootSession("hostile", session), chunk.TypeTextDelta, "")
			earlier.Go(func() { get("hostile", session+"/snapshot?at=1") })
			<-slow.begun
		}
		began := time.Now()
		if rec := get("normal", "summary"); rec.Code != http.StatusOK || time.Since(began) > 0 {
			t.Errorf("%d after %s: %.200s", rec.Code, time.Since(began), rec.Body)
		}
		earlier.Wait()
	})
}

// byTenant admits every client to the tenant of its header Tenant.
type byTenant struct{}

func (byTenant) Authenticate(r *http.Request) (*auth.Grant, error) {
	return &auth.Grant{Tenant: r.Header.Get("Tenant"), Subject: "ann", Scopes: auth.AllScopes, Sessions: auth.Sessions{All: true}}, nil
}

var weak = regexp.MustCompile(`^W/"\d+-[0-9a-f]{24}"$`)

// An ETag identifies one page: it stays while the page has the same content, and no other page has it.
func TestETag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		views := audiences
		w := newEnv(t, envConfig{edge: httpedge.Config{Views: views}})
		moments(w)
		get := func(path string, header http.Header) *httptest.ResponseRecorder {
			return w.record(http.MethodGet, "/v1/sessions/s1/snapshot"+path, header)
		}
		seen := make(map[string]string)
		paths := []string{"", "?partial=1", "?at=3", "?at=4", "?at=7", "?at=7&partial=1", "?checkpoint=cp-3", "?view=staff", "?view=staff&partial=1"}
		for _, path := range paths {
			rec := get(path, nil)
			etag := rec.Header().Get("ETag")
			if !weak.MatchString(etag) || rec.Header().Get("Cache-Control") != "private, no-cache" {
				t.Fatalf("%s: ETag %s, %v", path, etag, rec.Header())
			}
			if other, ok := seen[etag]; ok {
				t.Errorf("%s has the ETag of %s", path, other)
			}
			seen[etag] = path
		}
		time.Sleep(time.Hour)
		for etag, path := range seen {
			rec := get(path, http.Header{"If-None-Match": {etag}})
			if rec.Code != http.StatusNotModified || rec.Body.Len() > 0 || rec.Header().Get("ETag") != etag || rec.Header().Get("Content-Type") != "" {
				t.Errorf("%s after an hour: %d %v %s", path, rec.Code, rec.Header(), rec.Body)
			}
		}
		w.log.Append(s1, chunk.TypeTextDelta, "")
		for etag, path := range seen {
			want := http.StatusNotModified
			if strings.HasSuffix(path, "partial=1") && !strings.Contains(path, "at=") {
				want = http.StatusOK // only that has changed
			}
			if rec := get(path, http.Header{"If-None-Match": {etag}}); rec.Code != want {
				t.Errorf("%s after another record: %d, want %d", path, rec.Code, want)
			}
		}
	})
}

func TestIfNoneMatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		moments(w)
		etag := w.record(http.MethodGet, "/v1/sessions/s1/snapshot", nil).Header().Get("ETag")
		strong := strings.TrimPrefix(etag, "W/")
		for _, tt := range []struct {
			lines []string
			want  int
		}{
			{nil, 200},
			{[]string{""}, 200},
			{[]string{etag}, 304},
			{[]string{strong}, 304},
			{[]string{"*"}, 304},
			{[]string{` "other" , ` + etag}, 304},
			{[]string{`"a,b",W/"c" ,,` + strong + `,"d"`}, 304},
			{[]string{`"other"`, etag}, 304},
			{[]string{`"other"`, `W/"more"`}, 200},
			{[]string{strings.Trim(strong, `"`)}, 200},
			{[]string{`"other` + strong}, 200},
			{[]string{`w/` + strong}, 200},
			{[]string{`*, "other"`}, 200},
			{[]string{`"`}, 200},
		} {
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				if rec := w.record(method, "/v1/sessions/s1/snapshot", http.Header{"If-None-Match": tt.lines}); rec.Code != tt.want {
					t.Errorf("%s %q: %d, want %d", method, tt.lines, rec.Code, tt.want)
				}
			}
		}
	})
}

// HEAD is GET without the body.
func TestHeadOfPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		moments(w)
		for _, path := range []string{"/v1/sessions/s1/snapshot", "/v1/sessions/s1/messages", "/v1/sessions/s1/tree", "/v1/sessions/unknown/snapshot"} {
			full := w.get(t.Context(), path, nil)
			body := readAll(t, full.Body)
			full.Body.Close()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodHead, "http://edge"+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			head, err := w.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if rest := readAll(t, head.Body); rest != "" {
				t.Errorf("HEAD %s: %s", path, rest)
			}
			head.Body.Close()
			if head.StatusCode != full.StatusCode || head.Header.Get("ETag") != full.Header.Get("ETag") || head.ContentLength != int64(len(body)) && full.StatusCode == http.StatusOK {
				t.Errorf("HEAD %s: %d %v, GET: %d %v", path, head.StatusCode, head.Header, full.StatusCode, full.Header)
			}
		}
	})
}
