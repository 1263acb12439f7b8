//go:build e2e

package agui

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	dialect "github.com/tailrace/tailrace/codec/agui"
	"github.com/tailrace/tailrace/e2e/dialects/npm"
	"github.com/tailrace/tailrace/internal/testkit/chunktest"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/internal/testkit/turntest"
	"github.com/tailrace/tailrace/projector/fold"
)

var logs = flag.Int("logs", 60, "number of random logs")

// folded returns the snapshot of the session of a log, of which truncated records have removed others.
func folded(tb testing.TB, log []chunk.Record) fold.Snapshot {
	tb.Helper()
	session := turntest.Session
	if len(log) > 0 {
		session = log[0].Session
	}
	folder := fold.New(session)
	for _, rec := range turntest.Log(log).Remaining() {
		if rec.Session != session {
			continue
		}
		folder.SkipGap(rec, fold.GapRemoved)
		err := folder.Apply(rec)
		if errors.Is(err, fold.ErrInvalidRecord) {
			err = folder.Skip(rec, err.Error())
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	return folder.Snapshot()
}

// turn is one turn of a log: the records from first to last-1, and the id of the answer.
type turn struct {
	id          string
	first, last int
}

func turns(tb testing.TB, log []chunk.Record) []turn {
	tb.Helper()
	var out []turn
	for i, rec := range log {
		if rec.Session != log[0].Session || rec.Type != chunk.TypeRunStarted {
			continue
		}
		s := folded(tb, log[:i+1])
		if s.TurnStart().Seq != rec.Seq {
			continue
		}
		if n := len(out); n > 0 {
			out[n-1].last = i
		}
		out = append(out, turn{id: fold.MessageID(s.TurnMessages()), first: i, last: len(log)})
	}
	return out
}

// responses returns the responses to a client that reads a log from the start and loses its connection after each of the records with the indexes in cuts. A
// response ends where the Writer is done.
func responses(log []chunk.Record, of []turn, opt dialect.Options, cuts []int) []call {
	var out []call
	for _, t := range of {
		w := dialect.New(t.id, opt)
		body := ""
		flush := func(cut bool) {
			if body != "" {
				out = append(out, call{Body: new(body), Cut: cut, Clear: true})
			}
			body = ""
		}
		for i := t.first; i < t.last; i++ {
			frames := w.Append(nil, log[i])
			body += string(frames)
			switch {
			case len(frames) > 0 && w.Done():
				flush(false)
				w = primed(log[t.first:i+1], t.id, opt)
				body = string(w.Resume(nil))
			case slices.Contains(cuts, i):
				flush(true)
				w = primed(log[t.first:i+1], t.id, opt)
				body = string(w.Resume(nil))
			}
		}
		flush(false)
	}
	return out
}

// primed returns the Writer of a server that gets a client again.
func primed(log []chunk.Record, id string, opt dialect.Options) codec.Writer {
	w := dialect.New(id, opt)
	for _, rec := range log {
		w.Append(nil, rec)
	}
	return w
}

// check fails the test unless the client accepted everything, and logged nothing but what is allowed.
func check(t *testing.T, name string, r thread, v result, allowed ...string) {
	t.Helper()
	for i, c := range v.Calls {
		if c.Error != nil {
			t.Fatalf("%s, call %d: %s\n%s", name, i, *c.Error, *r.Calls[i].Body)
		}
	}
	for _, line := range v.Logged {
		allowed := append(allowed, "Failed to apply state patch") // the snapshot refuses it too
		if !slices.ContainsFunc(allowed, func(start string) bool { return strings.HasPrefix(line, start) }) {
			t.Fatalf("%s: the client says %s", name, line)
		}
	}
}

// compare fails the test unless the client has the messages and the state of the snapshot.
func compare(t *testing.T, name string, v result, log []chunk.Record) {
	t.Helper()
	var s struct {
		Messages []map[string]any `json:"messages"`
		State    any              `json:"state"`
	}
	if err := json.Unmarshal(dialect.AppendContent(nil, folded(t, log).Content(true)), &s); err != nil {
		t.Fatal(err)
	}
	if got, want := npm.AGUIMessages(v.Messages), npm.AGUIMessages(s.Messages); got != want {
		t.Fatalf("%s: the client has\n%s\nthe snapshot\n%s\nof\n%s", name, got, want, turntest.Log(log))
	}
	if !reflect.DeepEqual(v.State, s.State) {
		t.Fatalf("%s: the client has the state %v, the snapshot %v", name, v.State, s.State)
	}
}

// TestGeneratedLogs checks that the client accepts the stream of random logs, whole and with cuts, and has the messages and the state of the snapshot.
func TestGeneratedLogs(t *testing.T) {
	seed := seedtest.Seed(t)
	gen := turntest.Logs(turntest.Config{Turns: 2, SubAgents: true, Plain: true})
	rnd := rand.New(rand.NewPCG(seed, 0))
	for n := range *logs {
		log := gen.Example(int(rnd.Int32()))
		opt := dialect.Options{SubAgents: n%2 == 0, ClientTool: turntest.IsClientTool}
		name := fmt.Sprintf("-seed %d, log %d", seed, n)
		for _, cuts := range [][]int{nil, {rnd.IntN(len(log)), rnd.IntN(len(log))}} {
			r := thread{Calls: responses(log, turns(t, log), opt, cuts)}
			v := ask(t, r)
			check(t, fmt.Sprintf("%s, cuts %v", name, cuts), r, v)
			compare(t, fmt.Sprintf("%s, cuts %v", name, cuts), v, log)
		}
	}
}

// TestEveryCut checks each cut of some logs.
func TestEveryCut(t *testing.T) {
	seed := seedtest.Seed(t)
	gen := turntest.Logs(turntest.Config{Turns: 1, SubAgents: true, Plain: true})
	rnd := rand.New(rand.NewPCG(seed, 1))
	for n := range max(1, *logs/12) {
		log := gen.Example(int(rnd.Int32()))
		of := turns(t, log)
		for cut := range log {
			r := thread{Calls: responses(log, of, dialect.Options{SubAgents: true}, []int{cut})}
			v := ask(t, r)
			name := fmt.Sprintf("-seed %d, log %d, cut %d", seed, n, cut)
			check(t, name, r, v)
			compare(t, name, v, log)
		}
	}
}

// TestAnyText checks logs with crashes, ids that are used again, and any text that the chunk schema allows.
func TestAnyText(t *testing.T) {
	seed := seedtest.Seed(t)
	gen := turntest.Logs(turntest.Config{Turns: 2, SubAgents: true, Crashes: true, Reuse: true})
	rnd := rand.New(rand.NewPCG(seed, 2))
	for n := range *logs {
		log := gen.Example(int(rnd.Int32()))
		r := thread{Calls: responses(log, turns(t, log), dialect.Options{SubAgents: n%2 == 0}, []int{rnd.IntN(len(log))})}
		// The id of a call of an earlier turn, or of a step that was removed.
		check(t, fmt.Sprintf("-seed %d, log %d", seed, n), r, ask(t, r), "TOOL_CALL_START: tool call 'c1' already exists with name")
	}
}

// TestTranscripts checks the recorded sessions.
func TestTranscripts(t *testing.T) {
	for _, name := range chunktest.Transcripts() {
		log := chunktest.Records(name, chunk.RootSession("acme", "root"))
		of := turns(t, log)
		for _, opt := range []dialect.Options{{}, {SubAgents: true}} {
			r := thread{Calls: responses(log, of, opt, nil)}
			v := ask(t, r)
			check(t, name, r, v)
		}
	}
}

// TestFromSnapshot checks that a page that is loaded in the middle of an answer continues it.
func TestFromSnapshot(t *testing.T) {
	seed := seedtest.Seed(t)
	gen := turntest.Logs(turntest.Config{Turns: 1, Plain: true})
	rnd := rand.New(rand.NewPCG(seed, 3))
	for n := range *logs / 2 {
		log := gen.Example(int(rnd.Int32()))
		id, cut := turns(t, log)[0].id, 1+rnd.IntN(len(log))
		var s struct {
			Messages json.RawMessage `json:"messages"`
			State    json.RawMessage `json:"state"`
		}
		if err := json.Unmarshal(dialect.AppendContent(nil, folded(t, log[:cut]).Content(true)), &s); err != nil {
			t.Fatal(err)
		}
		w := primed(log[:cut], id, dialect.Options{})
		body := w.Resume(nil)
		for _, rec := range log[cut:] {
			body = w.Append(body, rec)
		}
		r := thread{Messages: s.Messages, State: s.State}
		if len(body) > 0 {
			r.Calls = []call{{Body: new(string(body))}}
		} else {
			r.Calls = []call{}
		}
		v := ask(t, r)
		name := fmt.Sprintf("-seed %d, log %d, cut %d", seed, n, cut)
		check(t, name, r, v)
		compare(t, name, v, log)
	}
}
