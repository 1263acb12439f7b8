package main

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// sessions lists what the projector has saved, with filters; snapshot shows a session now and earlier; open prints the URL of its page.
func TestFirstMinuteSessions(t *testing.T) {
	s := newRebuildEnv(t)
	s.startAs("ann", "of-ann")
	s.run(exitOK, "rebuild", "--all")
	out, _ := s.run(exitOK, "sessions", "--owner", "ann")
	if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) != 2 || !slices.Contains(strings.Fields(lines[0]), "OWNER") || !strings.HasPrefix(lines[1], "of-ann ") || !slices.Contains(strings.Fields(lines[1]), "ann") {
		t.Errorf("sessions of ann:\n%s", out)
	}
	out, _ = s.run(exitOK, "sessions")
	if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) != 5 || !strings.HasPrefix(lines[0], "SESSION  STATUS") || !strings.Contains(out, "\ns4 ") {
		t.Errorf("sessions:\n%s", out)
	}
	counts := map[string]int{}
	var agent string
	var at uint64
	out, _ = s.run(exitOK, "sessions", "--json", "--tenant", "other", "--since", "1h")
	for text := range strings.Lines(out) {
		var l sessionLine
		if err := json.Unmarshal([]byte(text), &l); err != nil || l.StreamSequence == 0 || l.Saved.IsZero() {
			t.Fatalf("%s: %v", text, err)
		}
		counts[l.Status]++
		agent, at = l.AgentType, uint64(l.StreamSequence)
	}
	if counts["active"]+counts["paused"]+counts["ended"]+counts["failed"] != 3 || at == 0 {
		t.Errorf("statuses %v", counts)
	}
	for status := range counts {
		if out, _ := s.run(exitOK, "sessions", "--json", "--tenant", "other", "--status", status, "--agent", agent); strings.Count(out, `"status":"`+status+`"`) == 0 && counts[status] == 3 {
			t.Errorf("%s: %s", status, out)
		}
	}
	if out, _ := s.run(exitOK, "sessions", "--json", "--since", "2100-01-01T00:00:00Z"); out != "" {
		t.Errorf("sessions of the future: %s", out)
	}

	out, _ = s.run(exitOK, "snapshot", "s0")
	_, rest, _ := strings.Cut(out, "position")
	position, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
	if seq, anchor, _ := strings.Cut(position, "-"); !strings.HasPrefix(out, "session") || anchor == "" {
		t.Errorf("snapshot:\n%s", out)
	} else if _, errs := s.run(exitError, "snapshot", "s0", "--at", seq+"-1"); !strings.Contains(errs, "recreated") {
		t.Errorf("another anchor: %s", errs)
	}
	if again, _ := s.run(exitOK, "snapshot", "s0", "--at", position); again != out {
		t.Errorf("at the last position:\n%s\nwant\n%s", again, out)
	}
	now, _ := s.run(exitOK, "snapshot", "s0", "--json")
	past, _ := s.run(exitOK, "snapshot", "s0", "--json", "--at", "3")
	var shown struct {
		StreamSequence uint64 `json:"streamSequence"`
	}
	if err := json.Unmarshal([]byte(past), &shown); err != nil || shown.StreamSequence > 3 || past == now {
		t.Errorf("at 3: %v %s", err, past)
	}
	for _, name := range []string{"snapshot", "open"} {
		if _, errs := s.run(exitError, name, "none"); !strings.Contains(errs, "tenant \"default\" has no session \"none\": `tailrace sessions` lists") {
			t.Errorf("%s of an unknown session: %s", name, errs)
		}
	}
}

// open starts the browser of the system with the URL, and only prints it without a display.
func TestFirstMinuteOpen(t *testing.T) {
	s := newRebuildEnv(t)
	dir := t.TempDir()
	opened := filepath.Join(dir, "opened")
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte("#!/bin/sh\necho \"$1\" >"+opened+".part && mv "+opened+".part "+opened+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("DISPLAY", "")
	t.Setenv("WAYLAND_DISPLAY", "")
	for want, args := range map[string][]string{
		"http://127.0.0.1:1/inspect/s/s0\n":          {"--listen", "127.0.0.1:1"},
		"http://localhost:1/inspect/s/s0\n":          {"--listen", "0.0.0.0:1"},
		"https://edge.example/tailrace/inspect/s/s0": {"--edge", "https://edge.example/tailrace/"},
	} {
		if out, _ := s.run(exitOK, append([]string{"open", "s0"}, args...)...); strings.TrimSpace(out) != strings.TrimSpace(want) {
			t.Errorf("%q: %s", args, out)
		}
	}
	if _, err := os.Stat(opened); err == nil {
		t.Error("a browser was opened without a display")
	}
	t.Setenv("DISPLAY", ":0")
	out, _ := s.run(exitOK, "open", "s0", "--edge", "http://edge.example")
	natstest.Eventually(t, "the browser", func(context.Context) error {
		text, err := os.ReadFile(opened)
		if err == nil && string(text) != out {
			t.Errorf("opened %s, want %s", text, out)
		}
		return err
	})
	if _, errs := s.run(exitUsage, "open", "s0", "--edge", "file:///etc/passwd"); !strings.Contains(errs, "want a URL such as https://") {
		t.Errorf("open a file: %s", errs)
	}
}

// token setup writes a key and auth.json, mint signs a token that an edge with that file accepts, and inspect shows what is in one and why it is refused.
func TestFirstMinuteTokens(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys", "new")
	file := filepath.Join(dir, "auth.json")
	mint := func(args ...string) string {
		t.Helper()
		code, out, errs := runCommand(t, "", append([]string{"token", "mint", "--auth", file, "--subject", "ann"}, args...)...)
		if code != exitOK || errs != "" || strings.Count(out, ".") != 2 || strings.Count(out, "\n") != 1 {
			t.Fatalf("mint %q: exit code %d, %s%s", args, code, out, errs)
		}
		return strings.TrimSpace(out)
	}
	if out := tailrace(t, exitOK, "token", "setup", "--dir", dir); !strings.Contains(out, "wrote "+file) || strings.Contains(out, "PRIVATE") {
		t.Errorf("setup: %s", out)
	}
	for _, name := range []string{signingKeyFile, authFileName} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	token := mint("--scope", "read chat", "--session", "s1")
	if out := tailrace(t, exitOK, "token", "setup", "--dir", dir); !strings.Contains(out, "kept "+file) {
		t.Errorf("setup again: %s", out)
	}
	damaged := t.TempDir()
	if err := os.WriteFile(filepath.Join(damaged, signingKeyFile), []byte("-----BEGIN"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := tailrace(t, exitUsage, "token", "setup", "--dir", damaged); !strings.Contains(out, "signing.pem: want a private key") || !strings.Contains(out, "delete the file") {
		t.Errorf("setup after a crash: %s", out)
	}
	edge := startEdge(t, "--auth", file)
	bearer := map[string]string{"Authorization": "Bearer " + token}
	if status, _, text := sendAs(t, "GET", edge.url+"/v1/agents", "", bearer); status != http.StatusOK && status != http.StatusServiceUnavailable { // the revocations are not loaded without NATS
		t.Errorf("the edge: %d %s", status, text)
	}
	if out := tailrace(t, exitOK, "token", "inspect", token, "--auth", file); !strings.Contains(out, `"typ": "at+jwt"`) || !strings.Contains(out, `"sid": "s1"`) || !strings.Contains(out, "accepted until") || strings.Contains(out, token) {
		t.Errorf("inspect: %s", out)
	}
	if out := tailrace(t, exitOK, "token", "inspect", token); !strings.Contains(out, "not verified") {
		t.Errorf("inspect without a file: %s", out)
	}
	parts := strings.Split(token, ".")
	header := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"EdDSA","typ":"JWT"}`))
	for want, bad := range map[string]string{
		`refused: invalid credential: type: header typ is "JWT", want "at+jwt"`: header + "." + parts[1] + "." + parts[2],
		"the signature is not that of a key":                                    parts[0] + "." + parts[1] + "." + strings.Repeat("A", len(parts[2])),
		"want base64url":                                                        "a=b.c.d",
	} {
		if out := tailrace(t, exitError, "token", "inspect", bad, "--auth", file); !strings.Contains(out, want) {
			t.Errorf("inspect %s: %s", want, out)
		}
	}
	for want, args := range map[string][]string{
		"want setup":             {"token"},
		"three parts":            {"token", "inspect", "abc"},
		"want some of read chat": {"token", "mint", "--auth", file, "--subject", "ann", "--scope", "write"},
		"want --auth":            {"token", "mint", "--subject", "ann", "--scope", "read"},
		"no entry of sessionTok": {"token", "mint", "--subject", "ann", "--scope", "read", "--auth", writeFile(t, "auth.json", `{"sessionTokens":[{"issuer":"a","audience":"b","keysFile":"`+writeFile(t, "keys.json", publicKeys(t))+`"}]}`)},
	} {
		if out := tailrace(t, exitUsage, args...); !strings.Contains(out, want) {
			t.Errorf("%q: %s, want %q", args, out, want)
		}
	}
	if out := tailrace(t, exitError, "token", "mint", "--auth", file, "--subject", "ann", "--scope", "read", "--ttl", "48h"); !strings.Contains(out, "the edge would refuse this token") || !strings.Contains(out, "claim exp") || strings.Contains(out, "eyJ") {
		t.Errorf("a lifetime of two days: %s", out)
	}
}

// publicKeys returns a JWK Set with a public key.
func publicKeys(t *testing.T) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := auth.NewMinter(auth.MinterConfig{Issuer: "a", Audience: "b", KeyID: "k", Key: key})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := m.PublicKeys()
	if err != nil {
		t.Fatal(err)
	}
	return string(keys)
}

// A mistyped command, flag or setting is answered with the one that it is most like.
func TestFirstMinuteNames(t *testing.T) {
	t.Setenv("TAILRACE_SERVICE_HOST", "10.0.0.1") // of Kubernetes
	for want, args := range map[string][]string{
		"tailrace: unknown command \"snapshots\"; did you mean snapshot?\n":             {"snapshots"},
		"tailrace: unknown command \"x\"; `tailrace help` lists the commands\n":         {"x"},
		"tailrace up: there is no flag --lisen; did you mean --listen?\n":               {"up", "--lisen", "127.0.0.1:1"},
		"tailrace tail: there is no flag --no-such-flag; --help lists the flags\n":      {"tail", "--no-such-flag"},
		"tailrace sessions: status is \"done\", want active, paused, ended or failed\n": {"sessions", "--status", "done"},
	} {
		if out := tailrace(t, exitUsage, args...); out != want {
			t.Errorf("%q: %s, want %s", args, out, want)
		}
	}
	t.Setenv("TAILRACE_LISTN", "127.0.0.1:1")
	if out := tailrace(t, exitUsage, "up"); out != "tailrace up: TAILRACE_LISTN is not a setting; did you mean TAILRACE_LISTEN?\n" {
		t.Error(out)
	}
}

// Without a server a command prints one line after a time, and ends with an exit code of its own. An HTTP server at the address is named, and so is a NATS
// server that refuses the user.
func TestFirstMinuteNoServer(t *testing.T) {
	t.Parallel()
	edge := startEdge(t)
	locked := natstest.Start(t, natstest.ServerConfig("authorization: {token: secret}\n"))
	for want, url := range map[string]string{
		"no NATS server at nats://127.0.0.1:1: start \"tailrace up\" or set TAILRACE_NATS_URL\n": "nats://127.0.0.1:1",
		strings.TrimPrefix(edge.url, "http://") + " is an HTTP server, as an edge is":            "nats" + strings.TrimPrefix(edge.url, "http"),
		"refuses the connection: nats: Authorization Violation":                                  locked.URL,
	} {
		var errs strings.Builder
		cfg := config{NATSURL: redactedURL(url), NATSPort: 4422}
		b, err := connect(natsauth.Operator, cfg, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		err = b.awaitServer(t.Context(), terminal{err: &errs}, 2*time.Second, 3*time.Second)
		if !strings.Contains(errs.String(), want) || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("%s: %s, want %s", url, errs.String(), want)
		}
		if code := exitCode(terminal{err: &errs}, "tail", err); code != exitUnreachable {
			t.Errorf("%s: exit code %d: %v", url, code, err)
		}
		b.close()
	}
	tail := startProcess(t, "tail", "s1", "--nats-url", "nats://127.0.0.1:1")
	tail.await(t, `no NATS server at nats://127.0.0.1:1: start`)
	if code := tail.end(); code != exitError {
		t.Errorf("a stopped tail ended with %d", code)
	}
}

// A port that a tailrace uses: the error names it, with its version, and the flags with which both run. They do.
func TestFirstMinutePortInUse(t *testing.T) {
	server := streamtest.Start(t)
	other := startEdge(t, "--nats-url", server.URL)
	address, ops := strings.TrimPrefix(other.url, "http://"), strings.TrimPrefix(other.ops, "http://")
	out := tailrace(t, exitError, "up", "--nats-url", server.URL, "--listen", address, "--ops-listen", ops)
	_, flags, ok := strings.Cut(out, "another tailrace ("+version+") runs at "+other.url+": open it, or start this one with ")
	if !ok || strings.Contains(flags, "--data-dir") {
		t.Fatalf("up: %s", out)
	}
	beside := startEdge(t, append([]string{"--nats-url", server.URL}, strings.Fields(flags)...)...)
	if status, body := get(t, beside.url+"/healthz", ""); status != http.StatusOK {
		t.Errorf("the other edge: %d %s", status, body)
	}
	if out := tailrace(t, exitError, "up", "--data-dir", t.TempDir(), "--nats-port", portOf(t, server.URL), "--listen", address, "--ops-listen", "127.0.0.1:0"); !strings.Contains(out, "another tailrace runs at "+other.url) ||
		!strings.Contains(out, "--nats-port ") || !strings.Contains(out, "--data-dir ") {
		t.Errorf("the port of the built-in server: %s", out)
	}
	page := httptest.NewServer(http.NotFoundHandler())
	defer page.Close()
	if out := tailrace(t, exitError, "edge", "--nats-url", server.URL, "--listen", strings.TrimPrefix(page.URL, "http://"), "--ops-listen", "127.0.0.1:0"); !strings.Contains(out, "address already in use; choose another address with --listen; start this one with --listen 127.0.0.1:") {
		t.Errorf("another program: %s", out)
	}
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	at, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return at.Port()
}

// up names its page, also in a container, and the agents that chats wait for; a worker has agents, and names those that are ready.
func TestFirstMinuteUp(t *testing.T) {
	server := streamtest.Start(t)
	agents := writeFile(t, "agents.json", `{"agents": {"support": {"http": {"url": "http://127.0.0.1:1/api/chat"}}}}`)
	up := func(args ...string) *process {
		t.Helper()
		return startProcess(t, append([]string{"up", "--nats-url", server.URL, "--listen", "127.0.0.1:0", "--ops-listen", ""}, args...)...)
	}
	own := up("--agents", agents)
	address := own.await(t, `Tailrace is running: (\S+)\n  Write to your agents`)
	own.await(t, "nats: ")
	if _, body := get(t, address+"/v1/agents", ""); !strings.Contains(body, `"type":"support"`) || strings.Contains(own.out.String(), "chats wait") {
		t.Errorf("the only agent is not that of chats: %s", body)
	}
	waits := up("--chat-agent", "x")
	waits.await(t, `Tailrace is running: (\S+)\n  chats wait for a worker with the agent x\n`)
	if strings.Contains(waits.out.String(), "Scripts:") {
		t.Error("scripts of an agent that is not that of chats are listed")
	}
	up("--listen", "0.0.0.0:0", "--trust-network").await(t, `Tailrace is running: http://localhost:\d+, if the port is published\n`)
	if out := tailrace(t, exitUsage, "up", "--nats-url", server.URL, "--listen", "0.0.0.0:81", "--ops-listen", ""); !strings.Contains(out, "docker run --rm -p 127.0.0.1:81:81 tailrace/tailrace up --listen 0.0.0.0:81 --trust-network") {
		t.Errorf("without --trust-network: %s", out)
	}
	for _, args := range [][]string{{}, {"--demo", "off"}} {
		if out := tailrace(t, exitUsage, append([]string{"worker", "--nats-url", server.URL, "--ops-listen", ""}, args...)...); !strings.Contains(out, "want --agents FILE, TAILRACE_MODEL_URL, or --demo on") {
			t.Errorf("worker %q: %s", args, out)
		}
	}
	startProcess(t, "worker", "--nats-url", server.URL, "--ops-listen", "", "--agents", agents).await(t, "agent support is ready\n")
	startProcess(t, "worker", "--nats-url", server.URL, "--ops-listen", "", "--demo", "on").await(t, "agent demo is ready\n")
}

// tail accepts the cursor of a browser, an age, and ends at the end of the log if that is wanted. The text of an error has all that is known.
func TestFirstMinuteTail(t *testing.T) {
	server := streamtest.Start(t)
	lines := `{"type":"text_delta","agentId":"a","agentType":"t","timestamp":1,"step":0,"delta":"one"}
{"type":"text_delta","agentId":"a","agentType":"t","timestamp":1,"step":0,"delta":"two"}
`
	if code, _, errs := runCommand(t, lines, "publish", "--session", "s1", "--no-end", "--nats-url", server.URL); code != exitOK {
		t.Fatal(errs)
	}
	tail := func(args ...string) string {
		t.Helper()
		return tailrace(t, exitOK, append([]string{"tail", "s1", "--no-follow", "--nats-url", server.URL}, args...)...)
	}
	all := tail()
	last, err := server.JetStream(t).Stream(t.Context(), "TR_CHUNKS_0")
	if err != nil {
		t.Fatal(err)
	}
	message, err := last.GetMsg(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	cursor := chunk.Cursor{Seq: 1, Anchor: chunk.AnchorAt(message.Time)}.String()
	after := tail("--after", cursor)
	if after == "" || !strings.HasSuffix(all, after) || len(after) >= len(all) || tail("--after", "1") != after {
		t.Errorf("after %s:\n%sof\n%s", cursor, after, all)
	}
	if out := tail("--since", "1h"); out != all {
		t.Errorf("since an hour ago:\n%s", out)
	}
	if out := tail("--since", "2100-01-01T00:00:00Z"); out != "" {
		t.Errorf("since the future:\n%s", out)
	}
	if out := tailrace(t, exitError, "tail", "s1", "--no-follow", "--after", "1-1", "--nats-url", server.URL); !strings.Contains(out, "recreated") {
		t.Errorf("another anchor: %s", out)
	}
	for _, args := range [][]string{{"--after", "x"}, {"--keep-open"}} {
		tailrace(t, exitUsage, append([]string{"tail", "s1", "--no-follow", "--nats-url", server.URL}, args...)...)
	}
	cause := "connection refused"
	for want, got := range map[string]string{
		"overloaded": errorText("overloaded", nil),
		"model_failed: the model does not answer: connection refused": errorText("model_failed", &chunk.ErrorDetail{Message: "the model does not answer", Cause: &cause}),
		"the model does not answer":                                   errorText("the model does not answer", &chunk.ErrorDetail{Message: "the model does not answer"}),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
