package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// outputText is the output of a process.
type outputText struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (s *outputText) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *outputText) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// process is a command in this process.
type process struct {
	out  outputText // stdout and stderr
	code chan int
	stop context.CancelFunc
}

// startProcess starts a command and stops it when the test ends.
func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p := &process{code: make(chan int, 1), stop: cancel}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.code <- run(ctx, terminal{in: strings.NewReader(""), out: &p.out, err: &p.out}, args)
	}()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		<-ended
		if t.Failed() {
			t.Logf("output of %s:\n%s", args[0], p.out.String())
		}
	})
	return p
}

// await waits until the output matches a pattern, and returns its first group.
func (p *process) await(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	var found []string
	natstest.Eventually(t, pattern, func(context.Context) error {
		if found = re.FindStringSubmatch(p.out.String()); found == nil {
			return errors.New("no match")
		}
		return nil
	})
	return found[len(found)-1]
}

// TestCredentialRevokedAndRestored revokes the credentials, or the permissions, of the process that has all roles until several
// attempts to connect or to send a request are rejected, and restores them. Then the edge must serve, the worker must answer and
// the projector must save again. Without nats.IgnoreAuthErrorAbort the client library closes the connection permanently after the second
// rejection.
func TestCredentialRevokedAndRestored(t *testing.T) {
	const user = `authorization { users = [ {user: tailrace, password: %s%s}, {user: operator, password: op} ] }`
	allowed := fmt.Sprintf(user, "one", "")
	for name, refused := range map[string]string{
		"password":     fmt.Sprintf(user, "other", ""),
		"subscription": fmt.Sprintf(user, "one", `, permissions: {subscribe: {deny: ["_INBOX_operator.>"]}}`),
		"all subjects": fmt.Sprintf(user, "one", `, permissions: {publish: {deny: [">"]}, subscribe: {deny: [">"]}}`),
	} {
		t.Run(name, func(t *testing.T) {
			srv := natstest.Start(t, natstest.Listen(), natstest.ServerConfig(allowed))
			url := strings.Replace(srv.URL, "://", "://tailrace:one@", 1)
			p := startProcess(t, "up", "--nats-url", url, "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--demo-pace", "0", "--drain", "0s")
			edge, ops := p.await(t, `is running: (\S+)`), p.await(t, `msg="ops server started" url=(\S+)`)
			wantAnswer(t, edge, "before")

			srv.Reload(t, refused)
			natstest.Eventually(t, "three refusals", func(context.Context) error {
				_, metrics := get(t, ops+"/metrics", "")
				n := 0
				for _, kind := range []string{"auth", "permission"} {
					var count int
					if at := strings.Index(metrics, `tailrace_nats_async_errors_total{kind="`+kind+`"} `); at >= 0 {
						fmt.Sscan(metrics[at+strings.Index(metrics[at:], " "):], &count)
					}
					n += count
				}
				if n < 3 {
					return fmt.Errorf("%d refusals", n)
				}
				return nil
			})
			srv.Reload(t, allowed)
			awaitDependencies(t, ops)
			wantAnswer(t, edge, "after")
		})
	}
}

// wantAnswer checks that a chat is answered, and that its snapshot is served and saved.
func wantAnswer(t *testing.T, edge, id string) {
	t.Helper()
	natstest.Eventually(t, "an answer in chat "+id, func(ctx context.Context) error {
		body := fmt.Sprintf(`{"id":%q,"messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"plain"}]}]}`, id)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, edge+"/api/chat", strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(text), `"type":"finish"`) {
			return fmt.Errorf("status %d, %w: %s", resp.StatusCode, err, text)
		}
		return nil
	})
	natstest.Eventually(t, "a saved snapshot of "+id, func(context.Context) error {
		status, body := get(t, edge+"/v1/sessions", "") // lists stored snapshots
		if status != http.StatusOK || !strings.Contains(body, `"`+id+`"`) {
			return fmt.Errorf("status %d: %s", status, body)
		}
		return nil
	})
}

// TestConnectionClosedPermanently checks that a role ends with an error when the client library closes the connection.
func TestConnectionClosedPermanently(t *testing.T) {
	srv := streamtest.Start(t, natstest.Listen())
	cfg, _, err := arguments(terminal{}, "edge", []string{"--nats-url", srv.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := connect(natsauth.Edge, cfg, cfg.logger(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	ended := make(chan error, 1)
	go func() {
		ended <- b.withStreams(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	b.nc.Close()
	if err := <-ended; !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("err = %v, want ErrConnectionClosed", err)
	}
}

// TestSecretsAreNotPrinted starts every role, and commands that fail, with marked secrets and searches their output.
func TestSecretsAreNotPrinted(t *testing.T) {
	const mark = "MARKED-SECRET"
	dir := t.TempDir()
	agents := filepath.Join(dir, "agents.json")
	text, err := json.Marshal(map[string]any{"agents": []any{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(agents, text, 0o600); err != nil {
		t.Fatal(err)
	}
	const down = "nats://user:" + mark + "@127.0.0.1:1"
	model := []string{"--model", "m", "--model-url", "http://user:" + mark + "@127.0.0.1:1/v1?key=" + mark, "--model-key", mark}
	local := []string{"--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--drain", "0s", "--log-level", "debug"}
	for name, args := range map[string][]string{
		"edge":           append([]string{"edge", "--nats-url", down}, local...),
		"projector":      append([]string{"projector", "--nats-url", down}, local...),
		"worker":         append([]string{"worker", "--nats-url", down}, local...),
		"up":             append([]string{"up", "--nats-url", down}, local...),
		"json log":       append([]string{"edge", "--log-format", "json", "--nats-url", down}, local...),
		"several":        append([]string{"edge", "--nats-url", down + ",nats://" + mark + "@127.0.0.1:2"}, local...),
		"up, model":      append(append([]string{"up", "--nats-url", down}, model...), local...),
		"worker, model":  append(append([]string{"worker", "--nats-url", down}, model...), local...),
		"port":           {"edge", "--nats-url", "nats://user:" + mark + "@127.0.0.1:port"},
		"slash":          {"edge", "--nats-url", "nats://user:" + mark + "/@127.0.0.1:1"},
		"control":        {"edge", "--nats-url", "nats://user:" + mark + "\x7f@127.0.0.1:1"},
		"model URL":      {"worker", "--model", "m", "--model-url", "http://user:" + mark + "/@127.0.0.1:1"},
		"unknown scheme": append([]string{"edge", "--nats-url", "x://user:" + mark + "@127.0.0.1:1"}, local...),
	} {
		t.Run(name, func(t *testing.T) {
			p := startProcess(t, args...)
			p.await(t, `(nats unavailable, waiting|tailrace \w+: .*)`) // the second is the error of a process that has ended
			p.stop()
			<-p.code
			lines := bufio.NewScanner(strings.NewReader(p.out.String()))
			for lines.Scan() {
				if strings.Contains(lines.Text(), mark) {
					t.Errorf("printed: %s", lines.Text())
				}
			}
		})
	}
}

func TestRedactedURL(t *testing.T) {
	for in, want := range map[redactedURL]string{
		"":                                   "",
		"nats://127.0.0.1:4222":              "nats://127.0.0.1:4222",
		"nats://u:p@127.0.0.1:4222":          "nats://xxxxx@127.0.0.1:4222",
		"nats://token@a:1,nats://u:p@x@b:2":  "nats://xxxxx@a:1,nats://xxxxx@b:2",
		"u:p@127.0.0.1":                      "xxxxx@127.0.0.1",
		"https://u:p@models/v1?api-key=k@k,": "https://xxxxx@models/v1?xxxxx,",
	} {
		if got := in.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
