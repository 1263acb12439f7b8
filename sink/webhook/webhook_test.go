package webhook

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tailrace/tailrace/internal/view"
	"github.com/tailrace/tailrace/sink/export"
	"github.com/tailrace/tailrace/sink/internal/exporttest"
	"github.com/tailrace/tailrace/sink/row"
)

// A conversation is these webhooks in this order, and the package standardwebhooks accepts each with either secret.
func TestWebhooks(t *testing.T) {
	log, to := exporttest.Start(t), newReceiver(t)
	log.Conversation("s1", "word")
	log.Delete("s1")
	exporttest.Run(t, log, to.config(t.Output()))
	var got []string
	var requests []received
	for _, r := range to.accepted {
		e := r.event
		got = append(got, strings.TrimSpace(strings.Join([]string{strings.TrimPrefix(e.Type, "tailrace."), e.Data.Session, e.Data.RunID, e.Data.ToolName, string(e.Data.Status)}, " ")))
		if e.ID != r.Headers["webhook-id"] || e.SpecVersion != "1.0" || e.Time.IsZero() || !strings.HasPrefix(e.Source, "/acme/s1/") ||
			!strings.HasPrefix(r.Headers["content-type"], "application/cloudevents+json") {
			t.Errorf("webhook %+v", r)
		}
		for _, secret := range []string{oldSecret, newSecret, secretPrefix + strings.Repeat("A", 40)} {
			r.Secret = secret
			requests = append(requests, r)
		}
		r.Secret, r.Body = newSecret, r.Body+" "
		requests = append(requests, r)
	}
	want := []string{
		"run.started s1 r1  running", "tool.failed s1 r1 search failed", "run.started child-s1 k1  running", "run.completed child-s1 k1  completed",
		"approval.requested s1 r1 delete waiting", "run.suspended s1 r1  suspended", "run.started s1 r2  running", "approval.decided s1 r1 delete completed",
		"run.completed s1 r2  completed", "session.deleted s1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	suspended := to.accepted[5].event.Data
	if u := suspended.Usage; u == nil || *u.InputTokens != 100 || u.Cost != "0.0125" || u.Currency != "USD" || *u.FailedToolCalls != 1 {
		t.Errorf("the usage is %+v", u)
	}
	if failed := to.accepted[1].event.Data; failed.ErrorCode != "timeout" || failed.Message != "word" || string(failed.Input) != `{"q":"word"}` {
		t.Errorf("the tool that failed is %+v", failed)
	}
	answers := verify(t, requests)
	for i, answer := range answers {
		if valid := i%4 < 2; (answer == "ok") != valid {
			t.Errorf("webhook %d is valid: %t, but standardwebhooks says %q", i/4, valid, answer)
		}
	}
	if len(answers) != 4*len(want) {
		t.Errorf("%d answers", len(answers))
	}
}

// Without content in the view, no word that a user, a model or a tool has written is in a webhook, a dead letter or a line of the log. A webhook that the receiver
// refuses is sent three times, and is a dead letter then.
func TestNoContentWithoutAView(t *testing.T) {
	const word = "canary"
	log, to := exporttest.Start(t), newReceiver(t)
	log.Conversation("s1", word)
	none, err := view.View{}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	to.answer = func(_ int, r received, w http.ResponseWriter) bool {
		if r.event.Type == ToolFailed {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return true
		}
		return false
	}
	path := filepath.Join(t.TempDir(), "dead")
	dead, err := export.OpenDeadLetters(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines exporttest.Lines
	cfg := to.config(&lines)
	cfg.Observe.Show, cfg.DeadLetters = none.Record, dead
	exporttest.Run(t, log, cfg)
	letters, err := os.ReadFile(path)
	if err != nil || strings.Count(string(letters), "\n") != 1 || !strings.Contains(string(letters), `"error":"refused: response 422 Unprocessable Entity"`) {
		t.Errorf("the dead letters are %q, %v, want that of the tool", letters, err)
	}
	if len(to.requests) != 8+3 || len(to.accepted) != 8 {
		t.Errorf("%d requests, of which %d were accepted, want 11 and 8", len(to.requests), len(to.accepted))
	}
	for _, r := range to.requests {
		if strings.Contains(fmt.Sprint(r), word) {
			t.Errorf("a webhook has the content: %+v", r)
		}
	}
	if strings.Contains(string(letters)+lines.String(), word) {
		t.Error("a dead letter or the log has the content")
	}
}

// A receiver that fails in each way gets every webhook in the end, those of a session in order, and each with one id and body.
func TestReceiverThatFails(t *testing.T) {
	log, to := exporttest.Start(t), newReceiver(t)
	for turn := range 4 {
		for s := range 20 {
			log.Turn(fmt.Sprint("s", s), fmt.Sprint("r", turn))
		}
	}
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a webhook was sent to another host") }))
	defer other.Close()
	to.answer = func(n int, r received, w http.ResponseWriter) bool {
		switch n % 10 {
		case 1, 2, 3:
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader([]int{500, 503, 429}[n%10-1])
		case 4:
			w.Header().Set("Location", other.URL)
			w.WriteHeader(http.StatusTemporaryRedirect)
		case 5: // no answer
			panic(http.ErrAbortHandler)
		case 6: // accepted, and the answer is lost
			to.accept(r)
			panic(http.ErrAbortHandler)
		default:
			return false
		}
		return true
	}
	exporttest.Run(t, log, to.config(t.Output()))
	bodies, order := map[string]string{}, map[string][]int64{}
	for _, r := range to.accepted {
		if body, ok := bodies[r.event.ID]; ok && body != r.Body {
			t.Errorf("webhook %s has two bodies", r.event.ID)
		}
		bodies[r.event.ID] = r.Body
		order[r.event.Data.Root] = append(order[r.event.Data.Root], r.event.Data.Sequence)
	}
	if len(bodies) != 160 {
		t.Errorf("%d webhooks, want 160", len(bodies))
	}
	for root, sequences := range order {
		if !slices.IsSorted(sequences) {
			t.Errorf("the webhooks of %s came in the order of %v", root, sequences)
		}
	}
	if len(to.accepted) <= len(bodies) {
		t.Error("no webhook was sent twice")
	}
}

// A receiver that does not answer delays the sessions of one lane only.
func TestReceiverThatHangs(t *testing.T) {
	log, to := exporttest.Start(t), newReceiver(t)
	for s := range 20 {
		log.Turn(fmt.Sprint("s", s), "r")
	}
	others := make(chan struct{}, 80)
	to.answer = func(n int, _ received, _ http.ResponseWriter) bool {
		if n == 1 { // until most webhooks of other lanes have come
			for range 25 {
				<-others
			}
		} else {
			others <- struct{}{}
		}
		return false
	}
	exporttest.Run(t, log, to.config(t.Output()))
	ids := map[string]bool{} // a request that takes longer than its timeout is sent again
	for _, r := range to.accepted {
		ids[r.event.ID] = true
	}
	if len(ids) != 40 {
		t.Errorf("%d webhooks, want 40", len(ids))
	}
}

// After 410 nothing is sent, and every webhook is a dead letter.
func TestReceiverThatIsGone(t *testing.T) {
	log, to := exporttest.Start(t), newReceiver(t)
	log.Conversation("s1", "word")
	to.answer = func(_ int, _ received, w http.ResponseWriter) bool {
		w.WriteHeader(http.StatusGone)
		return true
	}
	path := filepath.Join(t.TempDir(), "dead")
	dead, err := export.OpenDeadLetters(path)
	if err != nil {
		t.Fatal(err)
	}
	cfg := to.config(t.Output())
	cfg.DeadLetters = dead
	exporttest.Run(t, log, cfg)
	letters, err := os.ReadFile(path)
	if n := strings.Count(string(letters), "\n"); err != nil || n != 9 || len(to.requests) != 1 {
		t.Errorf("%d dead letters, %v, and %d requests, want 9 and 1", n, err, len(to.requests))
	}
}

// A webhook whose answer was not received before the program ended is sent again, with its id and body.
func TestEndBeforeTheAcknowledgement(t *testing.T) {
	log, to := exporttest.Start(t), newReceiver(t)
	log.Conversation("s1", "word")
	ctx, cancel := context.WithCancel(t.Context())
	to.answer = func(n int, r received, _ http.ResponseWriter) bool {
		if n == 4 {
			to.accept(r)
			cancel()
			panic(http.ErrAbortHandler)
		}
		return false
	}
	cfg := to.config(t.Output())
	first, err := export.New(log.JS, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Run(ctx); err != nil {
		t.Fatal(err)
	}
	exporttest.Run(t, log, cfg)
	bodies := map[string]string{}
	for _, r := range to.accepted {
		if body, ok := bodies[r.event.ID]; ok && body != r.Body {
			t.Errorf("webhook %s has two bodies", r.event.ID)
		}
		bodies[r.event.ID] = r.Body
	}
	if len(bodies) != 9 || len(to.accepted) <= 9 {
		t.Errorf("%d webhooks, %d of them different, want 9 and at least one twice", len(to.accepted), len(bodies))
	}
}

// Private addresses need the setting; without TLS, only this machine is allowed.
func TestAddresses(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	secrets, err := ReadSecrets(oldSecret)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"webhook+http://example.com/":         "want https",
		"webhook+http://10.0.0.1/":            "want https",
		"webhook+https://user:pw@example.com": "has a user",
		"webhook+ftp://example.com":           "want a URL",
		"webhook+https:///path":               "want a URL",
		"webhook+http://localhost:1/":         "",
		"webhook+http://[::1]:1/":             "",
		"webhook+https://example.com/":        "",
	} {
		at, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = New(at, secrets, false); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if strings.HasPrefix(text, "webhook+http://") {
			if _, err := New(at, secrets, true); err != nil {
				t.Errorf("%s with the setting: %v", text, err)
			}
		}
	}
	at, err := url.Parse("webhook+" + server.URL)
	if err != nil {
		t.Fatal(err)
	}
	client, err := New(at, secrets, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Deliver(t.Context(), []export.Row{deletion()}); err == nil || !strings.Contains(err.Error(), "not an allowed address") {
		t.Errorf("a private address: %v", err)
	}
}

func TestSecrets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(oldSecret+"\n"+newSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int{
		oldSecret: 1, oldSecret + " " + newSecret: 2, path: 2, "": 0, "whsec_": 0, "whsec_AAAA": 0, "whsec_!": 0, path + "x": 0, strings.Repeat(oldSecret+" ", 3): 0,
	} {
		got, err := ReadSecrets(text)
		if len(got) != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d secrets, %v, want %d", text, len(got), err, want)
		}
		if err != nil && text != "" && strings.Contains(err.Error(), strings.TrimPrefix(oldSecret, secretPrefix)) {
			t.Errorf("the error has a secret: %v", err)
		}
	}
}

func deletion() export.Row {
	return export.Row{Deletion: &row.Gap{Place: row.Place{Tenant: "acme", Root: "s1", Session: "s1", Seq: 7, StoredAt: time.Unix(1, 0)}, Reason: row.Deleted}}
}
