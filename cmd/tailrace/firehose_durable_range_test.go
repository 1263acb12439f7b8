package main

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// durableRange runs a durable firehose whose loader stores the lines in a new ledger, and returns the ordinals of the sessions that it has stored.
func durableRange(t *testing.T, server *natstest.Server, partitions int, want int, args ...string) (sequences []string) {
	t.Helper()
	l := newLedger(t)
	code, out, errs := runCommand(t, "", append([]string{
		"firehose", "--nats-url", server.URL, "--partitions", fmt.Sprint(partitions), "--exec", l.loader(0, true),
	}, args...)...)
	if code != exitOK || out != "" {
		t.Fatalf("%v: exit code %d: %s%s", args, code, out, errs)
	}
	for position := range maps.Keys(l.lines(t)) {
		sequence, _, _ := strings.Cut(position, "-")
		sequences = append(sequences, sequence)
	}
	if len(sequences) != want {
		t.Errorf("%v: %d lines, want %d", args, len(sequences), want)
	}
	return sequences
}

// A durable firehose that ends at the present end leaves its position for the next one: all of them together have each record once.
func TestDurableParts(t *testing.T) {
	const partitions = 2
	server := startPartitions(t, partitions)
	seen := map[string]bool{}
	for i, sessions := range [][]string{nil, {"a", "b", "c", "d"}, nil, {"e", "f", "g"}} {
		for _, s := range sessions {
			publishCustom(t, server.URL, s, 20, "--partitions", "2")
		}
		for _, sequence := range durableRange(t, server, partitions, 20*len(sessions), "--durable", "x", "--no-follow") {
			if seen[sequence] {
				t.Errorf("part %d has %s again", i, sequence)
			}
			seen[sequence] = true
		}
	}
	durableRange(t, server, partitions, 0, "--durable", "other", "--no-follow", "--tenant", "other")
	durableRange(t, server, partitions, 7, "--durable", "ends", "--no-follow", "--types", "stream_end")
}

// A loader that dies in a part leaves the rest to the next one.
func TestDurablePartIsContinued(t *testing.T) {
	server := streamtest.Start(t)
	publishCustom(t, server.URL, "s", 30)
	l := newLedger(t)
	code, _, errs := runCommand(t, "", "firehose", "--nats-url", server.URL, "--durable", "x", "--no-follow", "--exec", l.loader(11, true))
	if code != exitError || !strings.Contains(errs, "signal: killed") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	durableRange(t, server, 1, 19, "--durable", "x", "--no-follow")
	code, _, errs = runCommand(t, "", "firehose", "--nats-url", server.URL, "--durable", "y", "--no-follow", "--exec", l.loader(0, true)+"; exit 3")
	if code != exitError || !strings.Contains(errs, "has confirmed all lines, and ended: exit status 3") {
		t.Errorf("a loader that fails at its end: exit code %d: %s", code, errs)
	}
}

// Times of a durable firehose: since is that of its first use, until ends each use.
func TestDurableTimes(t *testing.T) {
	server := streamtest.Start(t)
	publishCustom(t, server.URL, "a", 30)
	all := firehoseRange(t, server, 1, "--no-follow")
	at := func(i int) string { return all.stored[i].Format(time.RFC3339Nano) }
	index := func(i int) int {
		return slices.IndexFunc(all.stored, func(of time.Time) bool { return !of.Before(all.stored[i]) })
	}
	durableRange(t, server, 1, index(20)-index(10), "--durable", "x", "--since", at(10), "--until", at(20))
	durableRange(t, server, 1, 0, "--durable", "x", "--until", at(20))
	durableRange(t, server, 1, index(25)-index(20), "--durable", "x", "--since", at(0), "--until", at(25)) // not its first use
	durableRange(t, server, 1, 30-index(25), "--durable", "x", "--no-follow")
	durableRange(t, server, 1, 30, "--durable", "hour", "--since", "1h", "--no-follow")
	durableRange(t, server, 1, 0, "--durable", "now", "--since", "0s", "--no-follow")
	durableRange(t, server, 1, 0, "--durable", "reversed", "--since", at(20), "--until", at(10))
	publishCustom(t, server.URL, "b", 10)
	for _, name := range []string{"x", "now"} {
		durableRange(t, server, 1, 10, "--durable", name, "--no-follow")
	}
	durableRange(t, server, 1, 40-index(20), "--durable", "reversed", "--no-follow")
	code, _, errs := runCommand(t, "", "firehose", "--nats-url", server.URL, "--durable", "x", "--ack", "written", "--until", time.Now().Add(time.Hour).Format(time.RFC3339))
	if code != exitError || !strings.Contains(errs, "after the present") {
		t.Errorf("until the future: exit code %d: %s", code, errs)
	}
}

// The other ways of confirmation end at the same place, and the last records of the range may be gone.
func TestDurableRangeEnds(t *testing.T) {
	server := streamtest.Start(t)
	publishCustom(t, server.URL, "a", 30)
	args := []string{"firehose", "--nats-url", server.URL, "--no-follow", "--durable"}
	code, out, errs := runCommand(t, "", append(slices.Clip(args), "written", "--ack", "written")...)
	if code != exitOK || strings.Count(out, "\n") != 30 {
		t.Errorf("written: exit code %d, %d lines: %s", code, strings.Count(out, "\n"), errs)
	}
	lines, to := io.Pipe()
	in, confirmations := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(t.Context(), terminal{in: in, out: to, err: t.Output()}, append(slices.Clip(args), "stdin", "--ack", "stdin"))
		to.Close()
	}()
	for n := range 30 {
		var sequence int
		if _, err := fmt.Fscanf(lines, `{"position":"0.%d-`, &sequence); err != nil || sequence != n+1 {
			t.Fatalf("line %d: %d, %v", n, sequence, err)
		}
		if _, err := fmt.Fscanf(lines, "%s\n", new(string)); err != nil {
			t.Fatal(err)
		}
		if n%10 == 9 {
			fmt.Fprintf(confirmations, "0.%d\n", sequence)
		}
	}
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("%q after the last line, %v", rest, err)
	}
	if code := <-ended; code != exitOK {
		t.Errorf("stdin: exit code %d", code)
	}
	confirmations.Close()
	stream, err := server.JetStream(t).Stream(t.Context(), "TR_CHUNKS_0")
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(21); seq <= 30; seq++ {
		if err := stream.DeleteMsg(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
	}
	durableRange(t, server, 1, 20, "--durable", "removed", "--no-follow")
}

// A loader that confirms at the end of its input gets that end with the end of the range, in both ways of confirmation. What it does not confirm is left to the next one.
func TestLoaderConfirmsAtTheEnd(t *testing.T) {
	t.Parallel()
	const partitions = 2
	server := startPartitions(t, partitions)
	for _, s := range []string{"a", "b", "c"} {
		publishCustom(t, server.URL, s, 10, "--partitions", "2")
	}
	position := regexp.MustCompile(`"position":"([^"]+)"`)
	for _, row := range []struct {
		name      string
		confirmed int // of the 30 lines
		args      []string
	}{
		{"all", 30, nil},
		{"nothing", 0, []string{"--until", "0s"}},
		{"other", 0, []string{"--tenant", "other"}},
	} {
		args := append([]string{"firehose", "--nats-url", server.URL, "--partitions", "2", "--no-follow"}, row.args...)
		done := row.confirmed == 30 || row.args[0] == "--tenant"
		want := map[bool]int{true: exitOK, false: exitError}[done]
		head := fmt.Sprintf("| head -n %d", row.confirmed)
		all := `all=$(sed -n 's/.*"position":"\([^"]*\)".*/\1/p'` + head + `); printf '%s' "${all:+$all
}"`
		if code, _, errs := runCommand(t, "", append(slices.Clip(args), "--durable", "exec-"+row.name, "--exec", all)...); code != want {
			t.Errorf("%s, --exec: exit code %d: %s", row.name, code, errs)
		}
		lines, to := io.Pipe()
		in, confirmations := io.Pipe()
		go func() {
			text, err := io.ReadAll(lines)
			for i, at := range position.FindAllSubmatch(text, -1) {
				if i < row.confirmed {
					fmt.Fprintf(confirmations, "%s\n", at[1])
				}
			}
			_ = confirmations.CloseWithError(err)
		}()
		if code := run(t.Context(), terminal{in: in, out: to, err: t.Output()}, append(slices.Clip(args), "--durable", "stdin-"+row.name, "--ack", "stdin")); code != want {
			t.Errorf("%s, --ack stdin: exit code %d", row.name, code)
		}
		for _, way := range []string{"exec-", "stdin-"} {
			if row.args == nil || !done {
				durableRange(t, server, partitions, 30-row.confirmed, "--durable", way+row.name, "--no-follow")
			}
		}
	}
}
