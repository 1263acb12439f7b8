package httpedge_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpedge"
)

// expiring gives all rights for a time.
type expiring struct{ lifetime time.Duration }

func (e expiring) Authenticate(*http.Request) (*auth.Grant, error) {
	return &auth.Grant{
		Tenant: "default", Subject: "ann", Scopes: auth.AllScopes, Sessions: auth.Sessions{All: true}, Views: []string{auth.AnyView}, ExpiresAt: time.Now().Add(e.lifetime),
	}, nil
}

// A stream ends after a complete event before the credential of its client expires, at the earliest after seven eighths of the time. The client comes back with
// its cursor, and gets each event once. That holds for an idle stream, also with heartbeats that are rarer than the expiry, and for one that is never idle.
func TestStreamsEndBeforeTheCredential(t *testing.T) {
	for name, tt := range map[string]struct {
		path              string
		lifetime, between time.Duration // until the expiry, between two records
		heartbeat         time.Duration
	}{
		"idle":             {"/v1/sessions/s1/events?", 10 * time.Minute, 7 * time.Minute, 15 * time.Second},
		"rare heartbeats":  {"/v1/sessions/s1/events?", time.Minute, time.Hour, 15 * time.Minute},
		"busy":             {"/v1/sessions/s1/events?", time.Minute, 10 * time.Millisecond, 15 * time.Second},
		"several sessions": {"/v1/events?session=s1&session=s2&", 10 * time.Minute, 7 * time.Minute, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newEnv(t, envConfig{edge: httpedge.Config{Authenticator: expiring{tt.lifetime}, Heartbeat: tt.heartbeat}})
				s2 := chunk.RootSession("default", "s2")
				w.log.Append(s2, chunk.TypeTextDelta, `"delta":"x"`)
				w.log.Append(s1, chunk.TypeTextDelta, `"delta":"x"`)
				stop := w.appendEvery(tt.between)
				var positions []int // in s1
				cursor := ""
				read := func() error {
					resp := w.get(t.Context(), tt.path+"after="+cursor, nil)
					defer resp.Body.Close()
					body, err := io.ReadAll(resp.Body)
					if resp.StatusCode != http.StatusOK || !strings.HasSuffix(string(body), "\n\n") {
						t.Fatalf("status %d, end %q", resp.StatusCode, body[max(0, len(body)-80):])
					}
					for line := range strings.Lines(string(body)) {
						if id, ok := strings.CutPrefix(line, "id: "); ok {
							cursor = strings.TrimSpace(id)
							var seq int
							if _, err := fmt.Sscanf(cursor, "%d", &seq); err != nil {
								t.Fatal(err)
							}
							if n := len(positions); n == 0 || positions[n-1] != seq || !strings.HasPrefix(tt.path, "/v1/events") {
								positions = append(positions, seq)
							}
						}
					}
					return err
				}
				for range 3 {
					began := time.Now()
					if err := read(); err == nil {
						t.Fatal("the stream is complete, want an aborted one")
					}
					if took := time.Since(began); took > tt.lifetime || took < tt.lifetime*7/8 {
						t.Errorf("ended after %s of %s", took, tt.lifetime)
					}
				}
				stop()
				w.log.Append(s1, chunk.TypeStreamEnd, `"streamId":"s1"`)
				w.log.Append(s2, chunk.TypeStreamEnd, `"streamId":"s2"`)
				if err := read(); err != nil {
					t.Fatal(err)
				}
				last, err := w.log.Last(t.Context(), s1)
				if err != nil {
					t.Fatal(err)
				}
				if positions[0] == 0 {
					positions = positions[1:] // of an event of s2 before the first one of s1
				}
				for i, seq := range positions {
					if seq != i+2 { // s2 has the first record
						t.Fatalf("event %d is at %d: %v", i, seq, positions)
					}
				}
				if got := positions[len(positions)-1]; got != int(last.Seq) {
					t.Errorf("the last event is %d, want %d", got, last.Seq)
				}
			})
		})
	}
}

// appendEvery appends a record to s1 each time d has passed, until stop is called.
func (w *env) appendEvery(d time.Duration) (stop func()) {
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(d)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				w.log.Append(s1, chunk.TypeTextDelta, `"delta":"x"`)
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-stopped
	}
}
