package httpedge_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
)

// refusing has no valid credential.
type refusing struct{}

func (refusing) Authenticate(*http.Request) (*auth.Grant, error) { return nil, auth.ErrNoCredential }

// The stream of a ticket ends with the credential that made the ticket. A client that reconnects with the spent ticket is refused; with a new one it continues
// after its cursor, with each event once.
func TestStreamOfATicketEndsWithItsCredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tickets := authtest.NewTickets(t)
		w := newEnv(t, envConfig{edge: httpedge.Config{Authenticator: refusing{}, Tickets: tickets}})
		w.log.Append(s1, chunk.TypeTextDelta, `"delta":"one"`)
		issue := func(lifetime time.Duration) string {
			t.Helper()
			ticket, _, err := tickets.Issue(t.Context(), &auth.Grant{Tenant: "default", Subject: "ann", ExpiresAt: time.Now().Add(lifetime)}, "s1", nil)
			if err != nil {
				t.Fatal(err)
			}
			return ticket
		}
		ticket := issue(10 * time.Minute)
		opened := time.Now()
		resp := w.get(t.Context(), "/v1/sessions/s1/events?ticket="+ticket, nil)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if took := time.Since(opened); err == nil || took > 10*time.Minute || took < 10*time.Minute*7/8 {
			t.Errorf("ended after %s, %v", took, err)
		}
		if resp.StatusCode != http.StatusOK || strings.Count(string(body), "one") != 1 || !strings.HasSuffix(string(body), "\n\n") {
			t.Fatalf("%d %s", resp.StatusCode, body)
		}
		_, id, _ := strings.Cut(string(body), "id: ")
		id, _, _ = strings.Cut(id, "\n")
		w.log.Append(s1, chunk.TypeStreamEnd, `"streamId":"s1"`)
		again := http.Header{"Last-Event-Id": {id}}
		if resp := w.record(http.MethodGet, "/v1/sessions/s1/events?ticket="+ticket, again); resp.Code != http.StatusUnauthorized || !strings.HasPrefix(resp.Header().Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("a spent ticket: %d %s", resp.Code, resp.Body)
		}
		resp = w.get(t.Context(), "/v1/sessions/s1/events?ticket="+issue(time.Hour), again)
		defer resp.Body.Close()
		if text := readAll(t, resp.Body); resp.StatusCode != http.StatusOK || strings.Contains(text, "one") || !strings.Contains(text, `"end"`) {
			t.Errorf("continued: %d %s", resp.StatusCode, text)
		}
		for path, want := range map[string]int{
			"/v1/sessions/s2/events?ticket=":           http.StatusNotFound,     // of another session
			"/v1/sessions/sub/events?root=s2&ticket=":  http.StatusNotFound,     // of a sub-agent of another session
			"/v1/events?session=s1&ticket=":            http.StatusUnauthorized, // a ticket is for one session
			"/v1/sessions/s1/snapshot?ticket=":         http.StatusUnauthorized,
			"/v1/sessions/s1/messages?ticket=":         http.StatusUnauthorized,
			"/v1/sessions/s1/events?token=x&ticket=":   http.StatusUnauthorized,
			"/v1/sessions/s1/events?view=none&ticket=": http.StatusBadRequest,
		} {
			if resp := w.record(http.MethodGet, path+issue(time.Hour), nil); resp.Code != want {
				t.Errorf("%s: %d %s, want %d", path, resp.Code, resp.Body, want)
			}
		}
		ticket = issue(time.Hour)
		if resp := w.record(http.MethodHead, "/v1/sessions/s1/events?ticket="+ticket, nil); resp.Code != http.StatusUnauthorized {
			t.Errorf("HEAD: %d", resp.Code)
		}
		resp = w.get(t.Context(), "/v1/sessions/s1/events?ticket="+ticket, nil)
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("after HEAD: %d", resp.StatusCode)
		}
	})
}
