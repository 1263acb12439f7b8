//go:build e2e && record

package compat

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// binary returns the path of the built command; `make e2e` builds it first.
func binary(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(cmp.Or(os.Getenv("TRTEST_COMPAT_BINARY"), filepath.Join("..", "..", "bin", "tailrace")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run `make build` first", err)
	}
	return path
}

// The settings of the recorded streams: messages expire after a hundred years.
const century = "876000h"

// env is the processes of one binary on one data directory.
type env struct {
	bin   string
	vars  []string
	up    *process
	edges map[string]string // name to URL
	model *model
}

// The edges of an env: for clients of version 6; for clients of version 7 with the output of sub-agents and with the
// agent server; and with a view.
const (
	plain = "plain"
	seven = "seven"
	views = "views"
)

const viewsFile = `{"default":"customer","selectable":["support"],"views":{"customer":{"preset":"public"},"support":{
"types":["*"],"except":["thinking","tool_arg_stream_delta"],"subAgents":true,"hide":{"tool_start":["arguments"],
"tool_approval_request":["input"],"tool_input_error":["partialInput"],"custom":["data.n"],"*":["agentType"]}}}}`

// streamsFile keeps everything for as long as the data.
const streamsFile = `{"commands":{"maxAge":"` + century + `"},"inbox":{"maxAge":"` + century + `"},"deadLetters":{"maxAge":"` + century + `"},"snapshots":{"maxAge":"unlimited"}}`

// startEnv runs `tailrace up` on a directory, without workers, and two more edges.
func startEnv(t *testing.T, bin, dir string, vars ...string) *env {
	t.Helper()
	port := fmt.Sprint(natstest.ReservePort(t))
	w := &env{bin: bin, edges: make(map[string]string)}
	streams := filepath.Join(t.TempDir(), "streams.json")
	if err := os.WriteFile(streams, []byte(streamsFile), 0o600); err != nil {
		t.Fatal(err)
	}
	w.vars = append(os.Environ(), "TAILRACE_DATA_DIR="+dir, "TAILRACE_NATS_PORT="+port, "TAILRACE_LISTEN=127.0.0.1:0", "TAILRACE_OPS_LISTEN=",
		"TAILRACE_MAX_AGE="+century, "TAILRACE_STREAMS="+streams, "TAILRACE_PARTITIONS=2", "TAILRACE_ALLOW_DELETE=true",
		"TAILRACE_CHAT_AGENT=assistant,demo", "TAILRACE_DEMO=off", "TAILRACE_HEARTBEAT=10m", "TAILRACE_DRAIN=1s", "TAILRACE_LOG_LEVEL=error")
	w.vars = append(w.vars, vars...)
	file := filepath.Join(t.TempDir(), "views.json")
	if err := os.WriteFile(file, []byte(viewsFile), 0o600); err != nil {
		t.Fatal(err)
	}
	w.up = w.start(t, "up")
	w.edges[plain] = w.up.url
	w.edges[seven] = w.start(t, "edge", "TAILRACE_CHAT_MAJOR=7", "TAILRACE_CHAT_SUBAGENTS=data", "TAILRACE_AGENT_SERVER=/agents").url
	w.edges[views] = w.start(t, "edge", "TAILRACE_VIEWS="+file).url
	for name, url := range w.edges {
		natstest.Eventually(t, "edge "+name, func(context.Context) error {
			// An edge without its streams answers 503.
			if got := w.ask(t, ask{Edge: name, Path: "/v1/sessions/unknown/snapshot"}); got.Code != http.StatusNotFound {
				return fmt.Errorf("%s: %+v", url, got)
			}
			return nil
		})
	}
	return w
}

// process is a role of the binary.
type process struct {
	url  string
	cmd  *exec.Cmd
	done chan struct{}
}

var urlLine = regexp.MustCompile(`http://[0-9.:]+`)

// start runs a role until the end of the test, or until it is stopped.
func (w *env) start(t *testing.T, role string, vars ...string) *process {
	t.Helper()
	p := &process{cmd: exec.CommandContext(context.WithoutCancel(t.Context()), w.bin, role), done: make(chan struct{})}
	p.cmd.Env, p.cmd.Stderr = append(slices.Clone(w.vars), vars...), t.Output()
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found := make(chan string, 1)
	go func() {
		defer close(p.done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if url := urlLine.FindString(lines.Text()); url != "" && len(found) == 0 {
				found <- url
			}
		}
		_ = p.cmd.Wait() // stop checks the exit code
	}()
	t.Cleanup(p.kill)
	if role == "worker" { // it has no address; its commands are queued
		return p
	}
	select {
	case p.url = <-found:
	case <-p.done:
		t.Fatalf("tailrace %s exited before it printed its URL", role)
	case <-time.After(time.Minute):
		t.Fatalf("tailrace %s printed no URL", role)
	}
	return p
}

// kill sends SIGKILL.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have exited
	<-p.done
}

// stop sends SIGTERM.
func (p *process) stop(t *testing.T) {
	t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // the exit code shows whether it had exited before
	<-p.done
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("%v: exit code %d", p.cmd.Args, code)
	}
}

// ask is one request: a command, or a GET of an edge.
type ask struct {
	Args   []string `json:"args,omitempty"`
	Edge   string   `json:"edge,omitempty"`
	Path   string   `json:"path,omitempty"`
	Cursor string   `json:"cursor,omitempty"` // X-Resume-From-Sequence
	Until  string   `json:"until,omitempty"`  // prefix of the last line of an answer that does not end
}

func (a ask) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s%s %s %s", strings.Join(a.Args, " "), a.Edge, a.Path, a.Cursor))
}

// answer is the answer to a request. Code is the HTTP status or the exit code.
type answer struct {
	Code   int         `json:"code"`
	Header http.Header `json:"header,omitempty"`
	Body   string      `json:"body"`
}

func (w *env) ask(t *testing.T, a ask) answer {
	t.Helper()
	if len(a.Args) > 0 {
		return w.command(t, nil, a)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := w.request(ctx, http.MethodGet, a, "")
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// request sends one request and reads the answer, up to Until.
func (w *env) request(ctx context.Context, method string, a ask, body string) (got answer, err error) {
	req, err := http.NewRequestWithContext(ctx, method, w.edges[cmp.Or(a.Edge, plain)]+a.Path, strings.NewReader(body))
	if err != nil {
		return got, err
	}
	if a.Cursor != "" {
		req.Header.Set("X-Resume-From-Sequence", a.Cursor)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return got, fmt.Errorf("%s: %w", a, err)
	}
	defer resp.Body.Close()
	text, err := readUntil(resp.Body, a.Until, true)
	if err != nil {
		return got, fmt.Errorf("%s: %w after %d bytes", a, err, len(text))
	}
	return mask(a, answer{Code: resp.StatusCode, Header: resp.Header, Body: text}), nil
}

// post sends a request that changes data.
func (w *env) post(t *testing.T, path, body string, want int) {
	t.Helper()
	got, err := w.request(t.Context(), http.MethodPost, ask{Path: path}, body)
	if err != nil || got.Code != want {
		t.Fatalf("POST %s: %+v, %v, want %d", path, got, err, want)
	}
}

// readUntil reads to the end, or through the line that begins with until; of events, through the empty line after it.
func readUntil(in io.Reader, until string, events bool) (string, error) {
	var text strings.Builder
	reader, last := bufio.NewReader(in), false
	for {
		line, err := reader.ReadString('\n')
		text.WriteString(line)
		last = last || until != "" && strings.HasPrefix(line, until)
		switch {
		case last && (!events || line == "\n"):
			return text.String(), nil
		case err == io.EOF:
			return text.String(), nil
		case err != nil:
			return text.String(), err
		}
	}
}

// command runs one command of the binary; Until ends a command that does not exit. Its standard error is not recorded.
func (w *env) command(t *testing.T, in io.Reader, a ask) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.bin, a.Args...)
	var errs bytes.Buffer
	cmd.Env, cmd.Stdin, cmd.Stderr = w.vars, in, &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	text, err := readUntil(out, a.Until, false)
	if err != nil {
		t.Fatal(err)
	}
	if a.Until != "" {
		_ = cmd.Process.Signal(syscall.SIGTERM) // the exit code shows whether it had exited
	}
	_ = cmd.Wait() // the exit code is part of the answer
	if ctx.Err() != nil {
		t.Fatalf("tailrace %s did not exit: %s", a, &errs)
	}
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		t.Logf("tailrace %s: exit code %d: %s", a, code, &errs)
	}
	return mask(a, answer{Code: cmd.ProcessState.ExitCode(), Body: text})
}

// mask removes what depends on the time of the request, and texts for humans.
func mask(a ask, got answer) answer {
	got.Header.Del("Date")
	switch {
	case got.Code >= http.StatusBadRequest:
		var refusal struct {
			Code string `json:"code"`
		}
		_ = json.Unmarshal([]byte(got.Body), &refusal) // without JSON the code is empty, which is compared
		got.Header.Del("Content-Length")
		got.Body = refusal.Code
	case got.Code == http.StatusOK && strings.Contains(a.Path, "/snapshot"):
		var page struct {
			Timestamp json.RawMessage `json:"timestamp"`
		}
		if json.Unmarshal([]byte(got.Body), &page) == nil && page.Timestamp != nil {
			got.Body = strings.ReplaceAll(got.Body, `"timestamp":`+string(page.Timestamp), `"timestamp":0`)
		}
	case strings.HasPrefix(got.Body, "retry: "): // it is random
		_, got.Body, _ = strings.Cut(got.Body, "\n")
		if strings.HasPrefix(a.Path, "/v1/events") { // the sessions are interleaved, and an id is a position in all of them
			frames := strings.Split(got.Body, "\n\n")
			for i, frame := range frames {
				frames[i] = strings.TrimSpace(idLine.ReplaceAllString(frame, ""))
			}
			frames = slices.DeleteFunc(frames, func(frame string) bool { return frame == "" }) // it only moved the cursor
			slices.SortStableFunc(frames, func(a, b string) int { return cmp.Compare(eventLine.FindString(a), eventLine.FindString(b)) })
			got.Body = strings.Join(frames, "\n")
		}
	case len(a.Args) > 0 && a.Args[0] == "verify": // its sessions are not ordered, and a tombstone expires
		lines := slices.DeleteFunc(slices.Sorted(strings.Lines(got.Body)), func(line string) bool { return strings.Contains(line, deleted) })
		got.Body = strings.Join(lines, "")
	}
	return got
}

// firehose runs `tailrace firehose` until done is true for its output, and returns the output session by session,
// because partitions are read concurrently. The last record of a deleted session expires, so it is omitted.
func (w *env) firehose(t *testing.T, done func(lines []string) bool, args ...string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.bin, append([]string{"firehose", "--from-start", "--format", "json"}, args...)...)
	cmd.Env, cmd.Stderr = w.vars, t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var lines []string
	var once sync.Once
	for reader := bufio.NewReader(out); ; {
		line, err := reader.ReadString('\n')
		if err != nil {
			break
		}
		if record := firehoseLine.FindString(line); record != "" && !strings.Contains(line, `"session":"`+deleted+`"`) {
			lines = append(lines, firehoseLine.ReplaceAllString(line, "{$2,$1,$3,"))
		}
		if done(lines) {
			once.Do(func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
		}
	}
	if err := cmd.Wait(); err != nil || ctx.Err() != nil {
		t.Errorf("tailrace firehose %v: %v after %d records", args, err, len(lines))
	}
	slices.SortStableFunc(lines, bySession)
	return lines
}

var (
	// The records of the store have the members that lines had when it was recorded.
	firehoseLine = regexp.MustCompile(`^\{"position":"[^"]*","tenant":"[^"]*","root":"[^"]*",("session":"[^"]*"),"partition":\d+,("sequence":\d+),("ordinal":\d+,"epoch":\d+),"storedAt":"[^"]*",`)

	idLine    = regexp.MustCompile(`(?m)^id: .*$`)
	eventLine = regexp.MustCompile(`(?m)^event: .*$`)
)

var sessionMember = regexp.MustCompile(`"session":"([^"]+)"`)

func bySession(a, b string) int { return cmp.Compare(sessionIn(a), sessionIn(b)) }

func sessionIn(line string) string {
	found := sessionMember.FindStringSubmatch(line)
	if found == nil {
		return ""
	}
	return found[1]
}
