package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// textOnly is a view that shows texts, hides reasoning, and shows the name of a call without its arguments.
const textOnly = `{"views":{"texts":{"types":["run_started","text_delta","tool_start"],"hide":{"tool_start":["arguments"]}}},"default":"texts"}`

// publishHidden writes a run whose reasoning, a custom event and arguments the view hides, and returns what it must not show.
func publishHidden(t *testing.T, url, session string, hiddenAtEnd int) (shown int) {
	t.Helper()
	var in strings.Builder
	write := func(members string) {
		fmt.Fprintf(&in, `{"agentId":"a","agentType":"t","timestamp":1,"step":1,%s}`+"\n", members)
	}
	for range 10 {
		write(`"type":"thinking","content":"canary","isComplete":false`)
		write(`"type":"text_delta","delta":"Hello"`)
		write(`"type":"custom","eventName":"canary","data":"canary"`)
		write(`"type":"tool_start","toolCallId":"c","toolName":"find","arguments":{"of":"canary"}`)
	}
	for range hiddenAtEnd {
		write(`"type":"custom","eventName":"canary","data":"canary"`)
	}
	if code, _, errs := runCommand(t, in.String(), "publish", "--no-end", "--session", session, "--nats-url", url); code != exitOK {
		t.Fatalf("publish: exit code %d: %s", code, errs)
	}
	return 21 // run_started, 10 texts, 10 calls
}

func viewsFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "views.json")
	if err := os.WriteFile(path, []byte(textOnly), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The lines show what a view shows, in each format, and the end is that of the log, after the records that the view hides.
func TestFirehoseView(t *testing.T) {
	server := streamtest.Start(t)
	shown := publishHidden(t, server.URL, "s", 5)
	views := viewsFile(t)
	all := firehoseRange(t, server, 1, "--no-follow", "--views", views)
	if len(all.records) != 46 {
		t.Fatalf("%d records without --view, want all 46", len(all.records))
	}
	some := firehoseRange(t, server, 1, "--no-follow", "--views", views, "--view", "texts")
	if len(some.records) != shown || some.end != all.end {
		t.Errorf("%d records to %s, want %d to %s", len(some.records), some.end, shown, all.end)
	}
	if rest := firehoseRange(t, server, 1, "--no-follow", "--after", some.end); len(rest.records) > 0 {
		t.Errorf("%d records after the end, want none", len(rest.records))
	}
	for _, format := range []string{"json", "cloudevents", "text"} {
		code, out, errs := runCommand(t, "", "firehose", "--nats-url", server.URL, "--no-follow", "--views", views, "--view", "texts", "--format", format)
		if code != exitOK || strings.Contains(out, "canary") || !strings.Contains(out, "Hello") || !strings.Contains(out, "find") {
			t.Errorf("%s: exit code %d: %s %s", format, code, out, errs)
		}
	}
	for args, want := range map[string]string{
		"--view texts":                       `--view is "texts", want the name of a view in the file of VIEWS`,
		"--view other --views " + views:      `--view is "other", want the name of a view`,
		"--view texts --views no-such-file":  "no-such-file",
		"--view= --views no-such-other-file": "no-such-other-file",
	} {
		code, _, errs := runCommand(t, "", append([]string{"firehose", "--nats-url", "nats://127.0.0.1:1"}, strings.Fields(args)...)...)
		if code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d: %s", args, code, errs)
		}
	}
}

// A record that the view hides needs no confirmation: it is acknowledged with the next line at the latest, and no reader gets it.
func TestDurableFirehoseView(t *testing.T) {
	server := streamtest.Start(t)
	views := viewsFile(t)
	for i := range 2 {
		shown := publishHidden(t, server.URL, fmt.Sprint("s", i), 5)
		l := newLedger(t)
		code, _, errs := runCommand(t, "", "firehose", "--nats-url", server.URL, "--views", views, "--view", "texts", "--durable", "x", "--no-follow", "--exec", l.loader(0, true))
		if code != exitOK {
			t.Fatalf("exit code %d: %s", code, errs)
		}
		if lines := l.lines(t); len(lines) != shown {
			t.Errorf("%d lines, want %d", len(lines), shown)
		}
		if lag := firehoseLag(t, server); lag != 0 {
			t.Errorf("%d records are not acknowledged after the last line was confirmed", lag)
		}
	}
}
