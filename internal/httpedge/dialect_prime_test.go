package httpedge_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// longTurn stores a turn of n records without its end, and its snapshot. Every read of a record takes the time.
//
//tailrace:bubble
func longTurn(t *testing.T, w *env, n int, each time.Duration) (read *atomic.Int64) {
	t.Helper()
	appendTurn(w, "r1", n)
	w.snapshots.save(t, s1)
	synctest.Wait() // the feed has delivered the turn before a client reads it, so that none of it is in memory
	read = new(atomic.Int64)
	w.log.OnRead(func(_ context.Context, what string) {
		if what == "read" {
			read.Add(1)
			time.Sleep(each)
		}
	})
	return read
}

func appendTurn(w *env, run string, n int) {
	w.log.Append(s1, chunk.TypeRunStarted, `"runId":"`+run+`","epoch":1,"mode":"execute","input":[{"content":"hello"}]`)
	for i := range n - 1 {
		w.log.Append(s1, chunk.TypeTextDelta, fmt.Sprintf(`"delta":"%d "`, i))
	}
}

func endTurn(w *env) { w.log.Append(s1, chunk.TypeStreamEnd, `"streamId":"x"`) }

func resumePath(dialect string, after int) string {
	return fmt.Sprintf("/v1/sessions/s1/events?dialect=%s&after=%d", dialect, after)
}

// All clients of a session connect at the same time, each with a cursor of its own in the turn. They share what is read of the log.
func TestDialectClientsShareTheReadsOfATurn(t *testing.T) {
	const (
		records = 100
		clients = 200
	)
	for _, tt := range []struct {
		name string
		next bool // another turn has begun since
		most int64
	}{
		// The page of the hub, and the first record for each of two reads of the turn.
		{"in the present turn", false, records + 10},
		// Besides, the fold of the turn, and the page that it ends in.
		{"in the turn before", true, 3*records + 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newEnv(t, envConfig{})
				if tt.next {
					appendTurn(w, "r0", records)
				}
				read := longTurn(t, w, records, time.Millisecond)
				var group sync.WaitGroup
				bodies := make([]string, clients)
				for i := range clients {
					group.Go(func() {
						resp := w.get(t.Context(), resumePath("aisdk", 1+i%records), nil)
						defer resp.Body.Close()
						if bodies[i] = readAll(t, resp.Body); resp.StatusCode != http.StatusOK {
							t.Errorf("client %d: %d %s", i, resp.StatusCode, bodies[i])
						}
					})
				}
				time.Sleep(time.Second)
				endTurn(w)
				group.Wait()
				if n := read.Load(); n > tt.most {
					t.Errorf("%d records were read, want at most %d", n, tt.most)
				}
				for i, body := range bodies {
					_, _, alone := getBody(t, w, resumePath("aisdk", 1+i%records), nil)
					if got := eventsOf(t, body); !slices.Equal(got, eventsOf(t, alone)) || got[len(got)-1].data != endMarker {
						t.Fatalf("client %d got %q, and alone %q", i, body, alone)
					}
				}
			})
		})
	}
}

// The log takes longer for the turn than a request may wait: the response begins, and has heartbeats until the client's own records follow.
func TestDialectResumesInATurnThatTakesLongToRead(t *testing.T) {
	for _, dialect := range []string{"aisdk", "agui", "mastra", "kortyx"} {
		t.Run(dialect, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newEnv(t, envConfig{edge: httpedge.Config{AttachTimeout: time.Second, Heartbeat: 3 * time.Second}})
				longTurn(t, w, 100, 100*time.Millisecond)
				endTurn(w)
				synctest.Wait()
				began := time.Now()
				status, _, body := getBody(t, w, resumePath(dialect, 98), nil)
				took := time.Since(began)
				if status != http.StatusOK || took < 10*time.Second || strings.Count(body, ": keepalive\n") < 3 || !strings.Contains(body, `97 "`) || strings.Contains(body, `96 "`) {
					t.Errorf("after %s: %d %s", took, status, body)
				}
				_, _, again := getBody(t, w, resumePath(dialect, 98), nil) // from memory
				if !slices.Equal(eventsOf(t, again), eventsOf(t, strings.ReplaceAll(body, ": keepalive\n\n", ""))) {
					t.Errorf("got %q, and from memory %q", body, again)
				}
			})
		})
	}
}

// A client whose earlier records are being read is an open stream: it counts, and ends when the client leaves, the edge drains, the credential expires or the
// log loses the turn.
func TestDialectStreamEndsWhileEarlierRecordsAreRead(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(w *env, resp *http.Response)
		next int // status of the next request
	}{
		{"client", func(_ *env, resp *http.Response) { resp.Body.Close() }, http.StatusOK},
		{"drain", func(w *env, _ *http.Response) {
			if err := w.edge.Drain(context.Background()); err != nil {
				w.t.Error(err)
			}
		}, http.StatusServiceUnavailable},
		{"credential", func(*env, *http.Response) { time.Sleep(time.Minute) }, http.StatusOK},
		{"log", func(w *env, _ *http.Response) { w.log.Expire(90) }, http.StatusGone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newEnv(t, envConfig{edge: httpedge.Config{
					Limits: httpkit.Limits{Streams: 1}, Authenticator: expiring{time.Minute},
				}})
				longTurn(t, w, 100, 2*time.Second)
				resp := w.get(t.Context(), resumePath("aisdk", 98), nil)
				defer resp.Body.Close()
				var reading sync.WaitGroup
				defer reading.Wait()
				reading.Go(func() {
					if _, err := io.Copy(io.Discard, resp.Body); err == nil {
						t.Error("the stream ended cleanly")
					}
				})
				time.Sleep(20 * time.Second)
				if status, _, body := getBody(t, w, resumePath("aisdk", 98), nil); status != http.StatusServiceUnavailable {
					t.Errorf("a second stream: %d %s", status, body)
				}
				tt.end(w, resp)
				time.Sleep(5 * time.Second)
				if n := w.hub.Stats().Cursors; n != 0 {
					t.Errorf("%d cursors", n)
				}
				next := w.get(t.Context(), resumePath("aisdk", 98), nil)
				defer next.Body.Close()
				if next.StatusCode != tt.next {
					t.Errorf("the next request: %d", next.StatusCode)
				}
			})
		})
	}
}
