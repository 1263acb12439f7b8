package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/outputtest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// publishCustom writes a run of n records to a session.
func publishCustom(t *testing.T, url, session string, n int, flags ...string) {
	t.Helper()
	in := strings.Repeat(`{"type":"custom","agentId":"a","agentType":"t","timestamp":1,"step":0,"eventName":"n","data":1}`+"\n", n-2) // run_started, stream_end
	if code, _, errs := runCommand(t, in, append([]string{"publish", "--session", session, "--nats-url", url}, flags...)...); code != exitOK {
		t.Fatalf("publish: exit code %d: %s", code, errs)
	}
}

// ledger is the file of a loader, with a line for each time that a record was stored.
type ledger struct{ path string }

func newLedger(t *testing.T) ledger {
	t.Helper()
	return ledger{filepath.Join(t.TempDir(), "ledger")}
}

// lines returns the lines by their position.
func (l ledger) lines(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(l.path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	lines := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") { // is being written
			break
		}
		var of struct {
			Position string `json:"position"`
			Tenant   string `json:"tenant"`
			Root     string `json:"root"`
			Session  string `json:"session"`
		}
		if err := json.Unmarshal([]byte(line), &of); err != nil || of.Position == "" || of.Tenant == "" || of.Root == "" || of.Session == "" {
			t.Fatalf("line %q: %v", line, err)
		}
		lines[of.Position] = line
	}
	return lines
}

// loader is a command that stores lines in the ledger, and dies at line n: before it confirms that line, or after. 0 is never.
func (l ledger) loader(n int, confirms bool) string {
	dies := fmt.Sprintf("if [ $n = %d ]; then kill -9 $$; fi\n", n)
	before, after := dies, ""
	if confirms {
		before, after = "", dies
	}
	return fmt.Sprintf(`n=0
while IFS= read -r line; do
n=$((n+1))
printf '%%s\n' "$line" >> '%s'
p=${line#*:\"}
%s
printf '%%s\n' "${p%%%%\"*}"
%s
done`, l.path, before, after)
}

// A loader is killed at every one of its lines, before and after it has confirmed the line. The ledger has every record.
func TestKilledLoaderLosesNothing(t *testing.T) {
	t.Parallel()
	server := streamtest.Start(t)
	const total = 800
	publishCustom(t, server.URL, "s", total)
	l := newLedger(t)
	args := []string{"firehose", "--from-start", "--durable", "x", "--nats-url", server.URL, "--exec"}
	for n := 1; n <= 20; n++ {
		for _, confirms := range []bool{false, true} {
			code, _, errs := runCommand(t, "", append(slices.Clip(args), l.loader(n, confirms))...)
			if code != exitError || !strings.Contains(errs, "signal: killed") {
				t.Fatalf("killed at line %d: exit code %d: %s", n, code, errs)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	last := make(chan int)
	var out outputtest.Buffer
	go func() {
		last <- run(ctx, terminal{in: strings.NewReader(""), out: &out, err: &out}, append(slices.Clip(args), l.loader(0, false)))
	}()
	natstest.Eventually(t, "all records", func(context.Context) error {
		if have := len(l.lines(t)); have < total {
			return fmt.Errorf("%d of %d", have, total)
		}
		return nil
	})
	cancel()
	if code := <-last; code != exitOK {
		t.Errorf("exit code %d after a signal: %s", code, out.String())
	}
	if lag := firehoseLag(t, server); lag != 0 {
		t.Errorf("%d records are not acknowledged after the end, although the loader has confirmed them", lag)
	}
}

// firehoseLag returns the records of partition 0 that are not acknowledged for the durable x.
func firehoseLag(t *testing.T, server *natstest.Server) uint64 {
	t.Helper()
	c, err := server.JetStream(t).Consumer(t.Context(), "TR_CHUNKS_0", "x")
	if err != nil {
		t.Fatal(err)
	}
	return c.CachedInfo().NumPending + uint64(max(0, c.CachedInfo().NumAckPending))
}

// The confirmations come from standard input: the end of these, or of the reader of the lines, ends the command, and its successor begins at once.
func TestAckStdin(t *testing.T) {
	server := streamtest.Start(t)
	publishCustom(t, server.URL, "s", 100)
	args := []string{"firehose", "--from-start", "--durable", "x", "--nats-url", server.URL, "--ack", "stdin"}
	first := 0
	for _, ends := range []string{"confirmations", "lines"} {
		lines, out := io.Pipe()
		in, confirmations := io.Pipe()
		code := make(chan int, 1)
		var errs outputtest.Buffer
		go func() { code <- run(t.Context(), terminal{in: in, out: out, err: &errs}, args) }()
		began := time.Now()
		read := bufio.NewReader(lines)
		for n := range 40 {
			text, err := read.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			var line struct {
				Position string `json:"position"`
				Ordinal  int    `json:"ordinal"`
			}
			if err := json.Unmarshal([]byte(text), &line); err != nil || line.Ordinal != first+n+1 {
				t.Fatalf("line %d is %s: %v", n, text, err)
			}
			if n == 19 { // confirms the others before it
				fmt.Fprintf(confirmations, "%s\r\n", line.Position)
			}
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: 40 lines after %s", ends, took)
		}
		first += 20
		if ends == "lines" {
			lines.Close()
		}
		fmt.Fprint(confirmations, "0.9") // the writer dies in the middle
		confirmations.Close()
		if got := <-code; got != exitError {
			t.Errorf("end of the %s: exit code %d: %s", ends, got, errs.String())
		}
		go func() { _, _ = io.Copy(io.Discard, read) }()
		lines.Close()
	}
	if lag := firehoseLag(t, server); lag != 60 {
		t.Errorf("%d records are not acknowledged, want 60", lag)
	}
}

// A confirmation that cannot be right ends the command, and acknowledges nothing.
func TestWrongConfirmations(t *testing.T) {
	server := streamtest.Start(t)
	publishCustom(t, server.URL, "s", 10)
	args := []string{"firehose", "--from-start", "--durable", "x", "--nats-url", server.URL, "--exec"}
	for command, want := range map[string]string{
		`read l; echo 0.9999; cat >/dev/null`:           "position 0.9999 was not delivered",
		`read l; echo 1.1; cat >/dev/null`:              "position 1.1 was not delivered",
		`read l; echo 0.1-abc; cat >/dev/null`:          "position 0.1-abc was not delivered",
		`echo 0.1; read l; echo 0.9999; cat >/dev/null`: "was not delivered", // 0.1 comes before its line, or is right
		`read l; echo stored; cat >/dev/null`:           `position is "stored", want one such as 0.4711-mgj6k3gb`,
		`read l; echo; cat >/dev/null`:                  `position is ""`,
		`exit 0`:                                        "the command of --exec has ended: exit status 0",
		`exec >&-; cat >/dev/null`:                      "the command of --exec has ended: exit status 0",
		`no-such-loader`:                                "the command of --exec has ended: exit status 127",
		`exec <&-; sleep 0.1; exit 3`:                   "the command of --exec has ended: exit status 3",
		`head -c 10000 /dev/zero; cat >/dev/null`:       "read a confirmation",
	} {
		code, _, errs := runCommand(t, "", append(slices.Clip(args), command)...)
		if code != exitError || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d: %s", command, code, errs)
		}
	}
	if lag := firehoseLag(t, server); lag < 9 {
		t.Errorf("%d records are not acknowledged, want 9 or 10", lag)
	}
}

// A reader that neither reads nor confirms does not keep the command from ending.
func TestStalledLoader(t *testing.T) {
	t.Parallel()
	server := streamtest.Start(t)
	publishCustom(t, server.URL, "s", 1000)
	p := startProcess(t, "firehose", "--from-start", "--durable", "x", "--nats-url", server.URL, "--exec", "echo stalls >&2; exec sleep 1000")
	p.await(t, "(stalls)")
	natstest.Eventually(t, "deliveries", func(context.Context) error {
		c, err := server.JetStream(t).Consumer(t.Context(), "TR_CHUNKS_0", "x")
		if err == nil && c.CachedInfo().NumAckPending == 0 {
			err = fmt.Errorf("none")
		}
		return err
	})
	began := time.Now()
	if code := p.end(); code != exitOK {
		t.Errorf("exit code %d: %s", code, p.out.String())
	}
	if took := time.Since(began); took > 2*readerGrace {
		t.Errorf("ended after %s", took)
	}
	if lag := firehoseLag(t, server); lag != 1000 {
		t.Errorf("%d records are not acknowledged, want 1000", lag)
	}
}

// realProcess starts a command as a process of its own.
func realProcess(t *testing.T, out io.Writer, args ...string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), commandVariable+"=1")
	cmd.Stdout, cmd.Stderr = out, t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// kill -9 of the command: the next one has the records within two seconds, whether it waits already or begins then.
func TestKilledFirehose(t *testing.T) {
	server := streamtest.Start(t)
	const total = 50
	publishCustom(t, server.URL, "s", total)
	args := []string{"firehose", "--from-start", "--durable", "x", "--nats-url", server.URL, "--exec"}
	for _, waits := range []bool{true, false} {
		args := slices.Replace(slices.Clone(args), 3, 4, fmt.Sprint("x", waits))
		l, next := newLedger(t), newLedger(t)
		stores := func(l ledger) string { return fmt.Sprintf("cat >> '%s'", l.path) } // and confirms nothing
		has := func(l ledger) {
			t.Helper()
			natstest.Eventually(t, "all records", func(context.Context) error {
				if have := len(l.lines(t)); have < total {
					return fmt.Errorf("%d of %d", have, total)
				}
				return nil
			})
		}
		killed := realProcess(t, io.Discard, append(slices.Clip(args), stores(l))...)
		has(l)
		if waits {
			p := startProcess(t, append(slices.Clip(args), stores(next))...)
			p.await(t, "(firehose waits for another reader)")
		}
		if err := killed.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_ = killed.Wait() // killed
		if !waits {
			startProcess(t, append(slices.Clip(args), stores(next))...)
		}
		has(next)
		took := time.Since(began)
		t.Logf("the next one waits: %t: it has the records after %s", waits, took)
		if took > 3*time.Second { // one of them for a busy machine
			t.Errorf("the next reader had the records after %s, want 2s", took)
		}
	}
}

// The reader of the lines is gone: the command releases its partitions, and is not ended by the signal of the broken pipe.
func TestFirehoseIntoAClosedPipe(t *testing.T) {
	server := streamtest.Start(t)
	publishCustom(t, server.URL, "s", 1000)
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := realProcess(t, out, "firehose", "--from-start", "--durable", "x", "--ack", "written", "--nats-url", server.URL)
	out.Close()
	if _, err := bufio.NewReader(in).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	in.Close()
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != exitError {
		t.Errorf("%s, signal %v; want exit code 1", cmd.ProcessState, cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
	}
	c, err := server.JetStream(t).Consumer(t.Context(), "TR_CHUNKS_0", "x")
	if err != nil {
		t.Fatal(err)
	}
	if groups := c.CachedInfo().PriorityGroups; len(groups) > 0 && groups[0].PinnedClientID != "" {
		t.Errorf("the partition is not released: %+v", groups)
	}
}

func TestFirehoseUsage(t *testing.T) {
	for args, want := range map[string]string{
		"--durable x":                           "want --exec COMMAND (",
		"--durable x --ack maybe":               `--ack is "maybe", want stdin or written`,
		"--durable x --ack written --exec cat":  "want --exec or --ack, not both",
		"--exec cat":                            "--exec and --ack need --durable",
		"--ack written":                         "--exec and --ack need --durable",
		"--ops":                                 "--ops needs --durable",
		"--durable x --ack written --after 0.1": "want --since or --from-start, which apply at the first use",
		"--durable x --no-follow":               "want --exec COMMAND (",
		"--after 0.1 --since 1h":                "want one of --from-start, --after and --since",
		"--after 4711":                          `position is "4711", want one such as 0.4711-mgj6k3gb`,
		"--since yesterday":                     "want a time in RFC 3339, or an age such as 24h",
		"--since -1h":                           "want a time in RFC 3339, or an age such as 24h",
		"--format xml":                          `--format is "xml", want json, cloudevents or text`,
		"--durable x --ack stdin --format text": "--format text has no positions",
		"--durable a.b --ack written":           "durable",
		"--durable x --ack written --json":      "there is no flag --json",
	} {
		code, _, errs := runCommand(t, "", append([]string{"firehose", "--nats-url", "nats://127.0.0.1:1"}, strings.Fields(args)...)...)
		if code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d: %s", args, code, errs)
		}
	}
}
