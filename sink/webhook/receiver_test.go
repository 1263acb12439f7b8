package webhook

import (
	"embed"
	"encoding/base64"
	"encoding/json"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/sink/export"
	"github.com/tailrace/tailrace/sink/internal/npmtest"
)

func TestMain(m *testing.M) { natstest.Main(m) }

var (
	oldSecret = secretPrefix + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("old ", 8)))
	newSecret = secretPrefix + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("new ", 8)))
)

// received is a request.
type received struct {
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Secret  string            `json:"secret"`

	event event
}

// receiver is a receiver of webhooks.
type receiver struct {
	t   *testing.T
	url *url.URL

	mu       sync.Mutex
	requests []received                                                 // all
	accepted []received                                                 // those that were answered with a success
	answer   func(n int, r received, w http.ResponseWriter) (done bool) // request n, from 1 on
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{t: t}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	at, err := url.Parse("webhook+" + server.URL + "/hook?key=1")
	if err != nil {
		t.Fatal(err)
	}
	r.url = at
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the program has ended
	}
	got := received{Body: string(body), Headers: map[string]string{}}
	for name := range req.Header {
		got.Headers[strings.ToLower(name)] = req.Header.Get(name)
	}
	if err := json.Unmarshal(body, &got.event); err != nil {
		r.t.Errorf("%s: %v", body, err)
	}
	if req.Method != http.MethodPost || req.RequestURI != "/hook?key=1" {
		r.t.Errorf("%s %s", req.Method, req.RequestURI)
	}
	r.mu.Lock()
	r.requests = append(r.requests, got)
	n, answer := len(r.requests), r.answer
	r.mu.Unlock()
	if answer != nil && answer(n, got, w) {
		return
	}
	r.accept(got)
	w.WriteHeader(http.StatusNoContent)
}

func (r *receiver) accept(got received) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.accepted = append(r.accepted, got)
}

// config returns that of an export to the receiver.
func (r *receiver) config(lines io.Writer) export.Config {
	r.t.Helper()
	secrets, err := ReadSecrets(oldSecret + "," + newSecret)
	if err != nil {
		r.t.Fatal(err)
	}
	client, err := New(r.url, secrets, false)
	if err != nil {
		r.t.Fatal(err)
	}
	return export.Config{
		Name: "webhook", Select: Select, Deliver: client.Deliver, Lanes: Lanes, Refusals: Refusals,
		Delays: wait.Backoff{First: time.Millisecond, Max: 10 * time.Millisecond}, Log: slog.New(slog.NewTextHandler(lines, nil)),
	}
}

//go:embed testdata/verify
var verifier embed.FS

// verify returns what the package standardwebhooks of npm says of each request: "ok" or an error.
func verify(t *testing.T, requests []received) []string {
	t.Helper()
	sources, err := fs.Sub(verifier, "testdata/verify")
	if err != nil {
		t.Fatal(err)
	}
	var in strings.Builder
	for _, r := range requests {
		if err := json.NewEncoder(&in).Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	cmd := npmtest.Command(t, "webhooks", sources, "verify.mjs")
	cmd.Stdin = strings.NewReader(in.String())
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}
