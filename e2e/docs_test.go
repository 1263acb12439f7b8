//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/roletest"
)

// TestDocs runs the shell boxes of README and docs that are marked as `run`: those of a page in their order, in one shell and an empty folder, as they are written but for
// ports. A box that is marked as `output` is what the box before it prints, in which … is any text. TestBoxMarks of internal/archtest checks the marks.
func TestDocs(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, path := range append([]string{"../README.md"}, pages...) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		boxes := documentBox.FindAllStringSubmatch(string(text), -1)
		for _, box := range boxes {
			if box[1] == "sh run" {
				ran++
			}
		}
		if strings.Contains(string(text), "```sh run\n") {
			t.Run(strings.TrimPrefix(path, "../"), func(t *testing.T) {
				t.Parallel()
				newVisitor(t, string(text)).run(boxes)
			})
		}
	}
	if ran < 15 {
		t.Errorf("%d boxes, want those of README, docs/start and docs/guides", ran)
	}
}

var (
	documentBox = regexp.MustCompile("(?s)\n *```([^\n]*)\n(.*?)\n *```\n")
	address     = regexp.MustCompile(`(localhost|127\.0\.0\.1):(\d{4,5})\b`)
	opsListener = regexp.MustCompile(`TAILRACE_OPS_LISTEN=(\S+)`)
	startsUp    = regexp.MustCompile(`^(make run|(bin/)?tailrace up\b.*)$`)
	startsNATS  = regexp.MustCompile(`^nats-server\b`)
)

// pace is the delay factor of the demo agent: an answer takes ten seconds, so that a command can be interrupted in the middle.
const pace = "0.2"

// visitor does what a page says, in one shell.
type visitor struct {
	t        *testing.T
	up       *up // not started if the page starts Tailrace itself
	dir      string
	scripts  string // folder of the files with the commands
	ports    map[string]string
	stdin    io.Writer
	statuses chan string // of the commands
	out, err string      // files with the outputs of all commands
	log      *os.File    // writes to the second one
	steps    int
}

func newVisitor(t *testing.T, text string) *visitor {
	t.Helper()
	route := httptest.NewServer(http.HandlerFunc(answerInTwoParts))
	t.Cleanup(route.Close)
	v := &visitor{t: t, up: newUp(t, "--demo", pace), dir: t.TempDir(), scripts: t.TempDir(), statuses: make(chan string)}
	v.out, v.err = filepath.Join(v.scripts, "out"), filepath.Join(v.scripts, "err")
	v.ports = map[string]string{"4480": portOf(v.up.listen), "4422": strconv.Itoa(v.up.natsPort), "3000": portOf(route.Listener.Addr().String())}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("commands and errors:\n%s\noutput, its end:\n%s", v.written(v.err), v.written(v.out)[max(0, len(v.written(v.out))-4000):])
		}
	})
	programs := map[string]string{
		"tailrace": fmt.Sprintf("exec '%s' \"$@\"", v.up.bin),
		"make": fmt.Sprintf(`case $1 in
			run) exec '%[1]s' up --demo %[2]s ;;
			build) mkdir -p bin && ln -sf '%[1]s' bin/tailrace ;;
			*) echo "the test has no target $1" >&2; exit 1 ;;
			esac`, v.up.bin, pace),
	}
	if strings.Contains(text, "\nnats-server ") {
		programs["nats-server"] = fmt.Sprintf("exec '%s' \"$@\" -a 127.0.0.1 -p %s", buildNATSServer(t), v.port("4222"))
	}
	bin := t.TempDir()
	for name, script := range programs {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(bin, ".curlrc"), []byte("fail-with-body\n"), 0o600); err != nil { // a status of 400 or more is an error
		t.Fatal(err)
	}
	python, err := filepath.Abs("../clients/python/src")
	if err != nil {
		t.Fatal(err)
	}
	v.shell([]string{
		"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "CURL_HOME=" + bin, "PYTHONPATH=" + python, "PYTHONDONTWRITEBYTECODE=1",
		"TAILRACE_LISTEN=" + v.up.listen, "TAILRACE_URL=http://" + v.up.listen, "TAILRACE_OPS_LISTEN=127.0.0.1:" + v.port("4481"),
		"TAILRACE_NATS_PORT=" + v.port("4422"), "TAILRACE_DATA_DIR=data", "TAILRACE_DRAIN=1s",
	})
	return v
}

// shell starts a shell that reads commands from a pipe, and writes the status of each to another one.
func (v *visitor) shell(env []string) {
	v.t.Helper()
	statuses, writeEnd, err := os.Pipe()
	if err != nil {
		v.t.Fatal(err)
	}
	cmd := exec.Command("sh", "-e")
	v.log = v.open(v.err)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = v.dir, v.open(v.out), v.log, []*os.File{writeEnd}
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		v.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		v.t.Fatal(err)
	}
	_ = writeEnd.Close() // the shell has a copy
	v.stdin = stdin
	go func() {
		defer close(v.statuses)
		defer func() { _ = statuses.Close() }() // it was read
		for lines := bufio.NewScanner(statuses); lines.Scan(); {
			v.statuses <- lines.Text()
		}
	}()
	v.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the group may have ended
		_ = cmd.Wait()                                      // it was killed
		for range v.statuses {
		}
	})
}

// run runs the boxes of a page.
func (v *visitor) run(boxes [][]string) {
	v.t.Helper()
	text := ""
	for _, box := range boxes {
		if box[1] == "sh run" {
			text += box[2] + "\n"
		}
		if _, file, found := strings.Cut(box[1], " file="); found {
			v.file(file)
		}
	}
	if !regexp.MustCompile(`(?m)^(make run|(bin/)?tailrace up|nats-server)\b`).MatchString(text) {
		v.up.start(v.t)
		lines := strings.Repeat(`{"type":"custom","eventName":"acme.progress","data":{}}`+"\n", 60) // so that the sequence 42 exists
		if res := v.up.tailrace(v.t, lines, "publish", "--session", "s1", "--message", "Where is my parcel?"); res.code != 0 {
			v.t.Fatalf("publish: exit %d: %s", res.code, res.err)
		}
	}
	printed := ""
	for _, box := range boxes {
		switch _, isOutput := strings.CutSuffix(box[1], " output"); {
		case box[1] == "sh run":
			before := len(v.written(v.out))
			v.box(v.withPorts(box[2]))
			printed = v.written(v.out)[before:]
			if strings.Contains(box[2], "/stream") && !strings.Contains(printed, `"type":"finish"`) {
				v.t.Errorf("the answer does not continue to its end after\n%s\n%s", box[2], printed)
			}
		case isOutput:
			want := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(v.withPorts(box[2]))), "…", "(?s:.*?)")
			if !regexp.MustCompile("^" + want + "$").MatchString(strings.TrimSpace(printed)) {
				v.t.Errorf("the box before this one does not print\n%s\nbut\n%s", box[2], printed)
			}
		}
	}
}

// file writes the file of the repository that a box names into the folder.
func (v *visitor) file(name string) {
	v.t.Helper()
	name, _, _ = strings.Cut(name, "#")
	text, err := os.ReadFile(filepath.Join("..", name))
	if err != nil {
		v.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(v.dir, filepath.Base(name)), text, 0o600); err != nil {
		v.t.Fatal(err)
	}
}

// box runs the lines of a box: those that start a server in the background, as in another terminal, and those that a user interrupts until the answer has begun.
func (v *visitor) box(text string) {
	v.t.Helper()
	script := ""
	flush := func() {
		v.t.Helper()
		v.step(script)
		for _, m := range opsListener.FindAllStringSubmatch(script, -1) {
			roletest.AwaitStarted(v.t, m[1])
		}
		script = ""
	}
	for line := range strings.Lines(text) {
		command := strings.TrimSpace(regexp.MustCompile(`\s# .*`).ReplaceAllString(line, ""))
		switch {
		case strings.Contains(line, "Ctrl-C"):
			flush()
			fifo := filepath.Join(v.scripts, "answer")
			v.step(fmt.Sprintf("rm -f '%[2]s'; mkfifo '%[2]s'\n%[1]s >'%[2]s' &\ninterrupted=$!\ngrep -m 1 delta <'%[2]s'\nkill $interrupted || :\nwait $interrupted || :\n", command, fifo))
		case startsUp.MatchString(command):
			flush()
			v.step("if [ -n \"$up\" ]; then kill $up; wait $up || :; fi\n" + command + " &\nup=$!\n")
			roletest.AwaitStarted(v.t, "127.0.0.1:"+v.port("4481"))
		case startsNATS.MatchString(command):
			flush()
			v.step(command + " &\n")
			natstest.Eventually(v.t, command, func(ctx context.Context) error {
				conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:"+v.port("4222"))
				if err != nil {
					return err
				}
				return conn.Close()
			})
		default:
			script += line
		}
	}
	flush()
}

// step runs commands, and fails the test if one of them does.
func (v *visitor) step(script string) {
	v.t.Helper()
	if strings.TrimSpace(script) == "" {
		return
	}
	v.steps++
	file := filepath.Join(v.scripts, strconv.Itoa(v.steps))
	if err := os.WriteFile(file, []byte(script+"\n"), 0o600); err != nil {
		v.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(v.log, "$ %s\n", strings.TrimSpace(script)); err != nil {
		v.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(v.stdin, ". '%s' </dev/null\necho done >&3\n", file); err != nil {
		v.t.Fatalf("%s: %v", script, err)
	}
	select {
	case _, ok := <-v.statuses:
		if !ok {
			v.t.Fatalf("failed: %s", script)
		}
	case <-time.After(natstest.WaitTimeout):
		v.t.Fatalf("has not ended after %s: %s", natstest.WaitTimeout, script)
	}
}

// open opens a file for the output of the shell, until the end of the test.
func (v *visitor) open(path string) *os.File {
	v.t.Helper()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { _ = file.Close() }) // the processes have copies
	return file
}

// written returns what the commands have written to a file so far.
func (v *visitor) written(path string) string {
	v.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		v.t.Fatal(err)
	}
	return string(text)
}

// withPorts returns a text of a page with the ports of the test.
func (v *visitor) withPorts(text string) string {
	text = address.ReplaceAllStringFunc(text, func(a string) string { return "127.0.0.1:" + v.port(portOf(a)) })
	return strings.ReplaceAll(text, "--demo on", "--demo "+pace)
}

// port returns the port of the test for one of the page.
func (v *visitor) port(documented string) string {
	if v.ports[documented] == "" {
		v.ports[documented] = strconv.Itoa(freePort(v.t))
	}
	return v.ports[documented]
}

func portOf(address string) string {
	_, port, _ := strings.Cut(address, ":")
	return port
}

// buildNATSServer builds the server that users install.
func buildNATSServer(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "nats-server")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-race=false", "-o", program, "github.com/nats-io/nats-server/v2").CombinedOutput(); err != nil {
		t.Fatalf("build nats-server: %v: %s", err, out)
	}
	return program
}

// answerInTwoParts is a chat route in the protocol of the AI SDK.
func answerInTwoParts(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Vercel-Ai-Ui-Message-Stream", "v1")
	for _, part := range []string{
		`{"type":"start"}`, `{"type":"start-step"}`, `{"type":"text-start","id":"t1"}`, `{"type":"text-delta","id":"t1","delta":"It is in "}`,
		`{"type":"text-delta","id":"t1","delta":"Oslo."}`, `{"type":"text-end","id":"t1"}`, `{"type":"finish-step"}`, `{"type":"finish"}`, `[DONE]`,
	} {
		_, _ = fmt.Fprintf(w, "data: %s\n\n", part) // the worker may have gone
	}
}
