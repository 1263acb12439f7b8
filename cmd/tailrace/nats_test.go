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
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// TestCredentialRevokedAndRestored revokes the credentials, or the permissions, of the process that has all roles until several
// attempts to connect or to send a request are rejected, and restores them. Then the edge must serve, the worker must answer and
// the projector must save again. Without nats.IgnoreAuthErrorAbort the client library closes the connection permanently after the second
// rejection.
func TestCredentialRevokedAndRestored(t *testing.T) {
	t.Parallel()
	const user = `authorization { users = [ {user: tailrace, password: %s%s}, {user: operator, password: op} ] }`
	allowed := fmt.Sprintf(user, "one", "")
	for name, refused := range map[string]string{
		"password":     fmt.Sprintf(user, "other", ""),
		"subscription": fmt.Sprintf(user, "one", `, permissions: {subscribe: {deny: ["_INBOX_operator.>"]}}`),
		"all subjects": fmt.Sprintf(user, "one", `, permissions: {publish: {deny: [">"]}, subscribe: {deny: [">"]}}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Another process: nats-server reads counters of traffic without synchronization when a reload closes a connection, which the race detector reports here.
			srv := natstest.StartProcess(t, natstest.ServerConfig(allowed))
			url := strings.Replace(srv.URL, "://", "://tailrace:one@", 1)
			tailrace(t, exitOK, "setup", "--nats-url", url)
			p := startProcess(t, "up", "--nats-url", url, "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--demo", "0", "--drain", "0s")
			edge, ops := p.await(t, `is running: (\S+)`), p.awaitOps(t)
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
		status, _, text, err := read(ctx, http.MethodPost, edge+"/api/chat", body, nil)
		if err != nil || status != http.StatusOK || !strings.Contains(text, `"type":"finish"`) {
			return fmt.Errorf("status %d, %w: %s", status, err, text)
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
	srv := streamtest.Start(t)
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

// The services of a process start at once if no server accepts its connection.
func TestServicesStartWithoutNATS(t *testing.T) {
	b, logged := natsApp(t, "--nats-url", "nats://127.0.0.1:1")
	started := errors.New("started")
	if err := b.withStreams(t.Context(), func(context.Context) error { return started }); !errors.Is(err, started) {
		t.Fatal(err)
	}
	if text := logged.String(); !strings.Contains(text, `msg="nats unavailable, waiting" server=nats://127.0.0.1:1 error="nats: no servers available for connection"`) {
		t.Errorf("log: %s", text)
	}
}

// TestSecretsAreNotPrinted starts every role, and commands that fail, with marked secrets and searches their output.
func TestSecretsAreNotPrinted(t *testing.T) {
	t.Parallel()
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
	processes := map[string]*process{}
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
		processes[name] = startProcess(t, args...)
	}
	for _, p := range processes { // all at once: each may take seconds to end
		p.await(t, `(nats unavailable, waiting|tailrace \w+: .*)`) // the second is the error of a process that has ended
		p.stop()
	}
	for name, p := range processes {
		p.end()
		lines := bufio.NewScanner(strings.NewReader(p.out.String()))
		for lines.Scan() {
			if strings.Contains(lines.Text(), mark) {
				t.Errorf("%s printed: %s", name, lines.Text())
			}
		}
	}
}

func TestRedactedURL(t *testing.T) {
	for in, want := range map[redactedURL]string{
		"":                                   "",
		"nats://127.0.0.1:4222":              "nats://127.0.0.1:4222",
		"nats://u:p@127.0.0.1:4222":          "nats://xxxxx@127.0.0.1:4222",
		"nats://a:1,nats://b:2":              "nats://a:1,nats://b:2",
		"nats://token@a:1,nats://b:2":        "nats://xxxxx@a:1,nats://b:2",
		"nats://token@a:1,nats://u:p@x@b:2":  "nats://xxxxx@b:2",
		"nats://u:p,q@127.0.0.1:4222":        "nats://xxxxx@127.0.0.1:4222",
		"nats://u:p?q@127.0.0.1:4222":        "nats://xxxxx",
		"u:p://q@127.0.0.1":                  "xxxxx@127.0.0.1",
		"u:p@127.0.0.1":                      "xxxxx@127.0.0.1",
		"https://u:p@models/v1?api-key=k":    "https://xxxxx@models/v1?xxxxx",
		"https://u:p@models/v1?api-key=k@k,": "https://xxxxx",
	} {
		if got := in.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
