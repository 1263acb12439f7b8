package fold

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
)

// reference folds a log in a slow and simple way: it keeps everything, never rolls back, and gets only the remaining records.
type reference struct {
	msgs     []*refMessage
	cur      *refMessage // receives parts
	text     *refPart    // receives text
	calls    map[string]*refPart
	state    any
	status   string
	pending  []map[string]any
	children map[string]map[string]any
	order    []string // children in the order of their start
	title    string
	titleOf  int
	follows  map[int]int // by the first message of a branch, the one that it follows
	run      map[string]any
	past     []any
	errors   []any
	streams  []*refStream
	bad      int // rejected pieces of streams
	step     int64
	soft     bool // interrupted
	turns    int
	runs     int
	join     int // message that the answer continues
	opened   bool
	boundary bool
	failure  any
	cp       any
	usage    [4]int64
	skipped  int
	patches  int
	seq      chunk.Seq
	rec      chunk.Record // the current record
}

type refMessage struct {
	index, shown, turn int
	role               string
	parts              []*refPart
	metadata           any
}

type refPart struct {
	json map[string]any
	text string
	turn int
	msg  *refMessage
}

func (p *refPart) state() string { s, _ := p.json["state"].(string); return s }
func (p *refPart) hasOutcome() bool {
	return slices.Contains([]string{"output-available", "output-error", "output-denied"}, p.state())
}

func newReference() *reference {
	return &reference{run: map[string]any{}, status: "ended", calls: map[string]*refPart{}, children: map[string]map[string]any{}, follows: map[int]int{}, join: -1}
}

func (w *reference) take(rec chunk.Record) {
	w.seq, w.rec = rec.Seq, rec
	c, err := rec.Decode()
	if err != nil {
		w.skipped++
		return
	}
	if _, opaque := c.Body.(chunk.Opaque); opaque {
		return
	}
	if !rec.Type.Control() {
		if !w.opened {
			w.opened, w.status = true, "active"
			w.run["status"] = "running"
			w.closeMessage()
			w.step = max(w.step, c.Step)
		} else if c.Step > w.step {
			w.step = c.Step
			w.closeMessage()
		}
	}
	if !w.control(c.Body) && !w.tool(c.Body) && !w.children0(c.Body) {
		w.rest(c.Body)
	}
}

func (w *reference) closeMessage() { w.cur, w.text = nil, nil }

func (w *reference) message() *refMessage {
	if w.cur == nil {
		w.cur = &refMessage{index: len(w.msgs), shown: w.join, role: "assistant", turn: w.turns}
		if w.join < 0 {
			w.cur.shown, w.join = len(w.msgs), len(w.msgs)
		}
		w.msgs = append(w.msgs, w.cur)
	}
	if w.boundary {
		w.boundary = false
		w.cur.parts = append(w.cur.parts, &refPart{json: map[string]any{"type": "step-start"}})
	}
	return w.cur
}

func (w *reference) part(j map[string]any) *refPart {
	m := w.message()
	p := &refPart{json: j, turn: w.turns, msg: m}
	m.parts = append(m.parts, p)
	return p
}

func (w *reference) applyChunk(kind, piece string) {
	if piece == "" {
		return
	}
	if w.text == nil || w.text.json["type"] != kind {
		w.text = w.part(map[string]any{"type": kind})
	}
	w.text.text = chunk.Concat(w.text.text, piece)
}

func (w *reference) control(body chunk.Body) bool {
	over := w.status == "ended" || w.status == "failed"
	switch b := body.(type) {
	case chunk.RunStarted:
		same := w.opened && b.RunID == w.run["id"]
		opens := !w.opened || !same && (b.Mode == "execute" || len(b.Input) > 0)
		w.closeMessage()
		w.boundary, w.soft, w.failure = false, false, nil
		w.startRun(b, same)
		w.status, w.opened = "active", true
		if !opens {
			return true
		}
		w.step, w.join = 0, -1
		for id, p := range w.calls { // complete calls, and calls of the turn before last, are removed
			if p.json == nil || p.hasOutcome() || p.turn < w.turns {
				delete(w.calls, id)
			}
		}
		w.turns++
		w.turnStreams()
		w.pending = slices.DeleteFunc(w.pending, func(p map[string]any) bool { return w.calls[p["toolCallId"].(string)] == nil })
		w.beginBranch(b.Input)
		for _, in := range b.Input {
			m := &refMessage{index: len(w.msgs), shown: len(w.msgs), role: "user", turn: w.turns}
			if in.Content != "" || in.Files == nil {
				m.parts = append(m.parts, &refPart{json: map[string]any{"type": "text", "state": "done"}, text: in.Content})
			}
			for _, f := range in.Files {
				m.parts = append(m.parts, &refPart{json: map[string]any{"type": "file", "mediaType": f.MediaType, "url": f.URL}})
			}
			if in.Metadata != nil {
				m.metadata = refParse(*in.Metadata)
			}
			w.msgs = append(w.msgs, m)
		}
		w.setTitle(len(b.Input))
	case chunk.StreamPaused:
		if over {
			return true
		}
		w.closeMessage()
		w.status = "paused"
		w.runIs("running", "suspended")
		for _, m := range w.msgs {
			for _, p := range m.parts {
				id, _ := p.json["toolCallId"].(string)
				if m.turn == w.turns && w.calls[id] == p && p.state() == "input-available" && p.json["providerExecuted"] == nil && !w.delegated(id) {
					w.awaitClient(id, nil)
				}
			}
		}
	case chunk.StreamActive:
		if w.status == "paused" {
			w.run["status"] = "running"
			w.status, w.soft = "active", false
		}
	case chunk.StreamEnd:
		if w.over(over) {
			w.status, w.run["status"] = "ended", "ended"
			if w.soft {
				w.status, w.run["status"] = "paused", "interrupted"
			}
			if b.FinalOutput != nil {
				w.run["output"] = refParse(*b.FinalOutput)
			}
		}
	case chunk.StreamFailed:
		if w.over(over) {
			w.run["status"] = "failed"
			w.status, w.failure = "failed", map[string]any{"message": b.Error}
		}
	case chunk.Truncated:
		w.closeMessage()
		w.step = 0
	default:
		return false
	}
	return true
}

func (w *reference) over(already bool) bool {
	if already {
		return false
	}
	w.closeMessage()
	w.boundary = false
	w.pending = slices.DeleteFunc(w.pending, func(p map[string]any) bool { return p["runId"] == w.run["id"] })
	return true
}

func (w *reference) delegated(call string) bool {
	for _, c := range w.children {
		if c["callId"] == call && c["status"] == "running" && c["turn"] == w.turns {
			return true
		}
	}
	return false
}

func (w *reference) awaitClient(id string, deadline any) {
	p := w.calls[id]
	if p == nil || p.json == nil || p.hasOutcome() || p.state() == "approval-requested" {
		return
	}
	w.await(id, map[string]any{"kind": "client-tool", "toolCallId": id, "toolName": p.json["toolName"], "deadline": deadline})
}

func (w *reference) await(id string, call map[string]any) {
	for _, p := range w.pending {
		if p["toolCallId"] == id && p["kind"] == call["kind"] && call["deadline"] == nil {
			call["deadline"] = p["deadline"]
		}
	}
	if call["deadline"] == nil {
		delete(call, "deadline")
	}
	w.answered(id)
	if w.run["id"] != nil {
		call["runId"] = w.run["id"]
	}
	w.pending = append(w.pending, call)
}

func (w *reference) answered(id string) {
	w.pending = slices.DeleteFunc(w.pending, func(p map[string]any) bool { return p["toolCallId"] == id })
}

// page returns the page of a browser as plain values.
func (w *reference) page() map[string]any {
	var msgs []any
	var ids map[string]bool // of the calls in the message
	var data map[string]int // indexes of the parts with an id
	last := -1
	path := w.path(len(w.msgs) - 1)
	for n, m := range w.msgs {
		if meta, ok := m.metadata.(map[string]any); !path[n] || len(m.parts) == 0 || ok && meta["hidden"] == true {
			continue
		}
		if m.shown != last {
			last = m.shown
			msgs = append(msgs, map[string]any{"id": MessageID(m.shown), "role": m.role, "parts": []any{}})
			ids, data = map[string]bool{}, map[string]int{}
		}
		ui := msgs[len(msgs)-1].(map[string]any)
		if m.metadata != nil {
			ui["metadata"] = m.metadata
		}
		for _, p := range m.parts {
			parts, j := ui["parts"].([]any), w.partJSON(p)
			if id, ok := j["toolCallId"].(string); ok {
				for n := 2; ids[j["toolCallId"].(string)]; n++ {
					j["toolCallId"] = id + "_" + strconv.Itoa(n)
				}
				ids[j["toolCallId"].(string)] = true
				if st := p.state(); strings.HasPrefix(st, "approval") || st == "output-denied" {
					j["providerExecuted"] = true
				}
				p.allowed(j)
			}
			if id, ok := j["id"].(string); ok {
				if at, again := data[id]; again {
					parts[at] = j
					continue
				}
				data[id] = len(parts)
			}
			ui["parts"] = append(parts, j)
		}
	}
	children := []any{}
	for _, id := range w.order {
		c := maps.Clone(w.children[id])
		delete(c, "turn")
		children = append(children, c)
	}
	pending := []any{}
	for _, p := range w.pending {
		p = maps.Clone(p)
		if call := w.calls[p["toolCallId"].(string)]; call != nil && call.json["input"] != nil {
			p["input"] = call.json["input"]
		}
		pending = append(pending, p)
	}
	return map[string]any{"messages": msgs, "status": w.status, "state": w.state, "children": children, "pending": pending, "error": w.failure, "checkpointId": w.cp,
		"run": w.run, "pastRuns": w.past, "errors": w.errors, "structured": w.growing()}
}

func (w *reference) partJSON(p *refPart) map[string]any {
	j := maps.Clone(p.json)
	switch j["type"] {
	case "text", "reasoning":
		j["text"] = p.text
		j["state"] = "done"
		if p == w.text {
			j["state"] = "streaming"
		}
	case "dynamic-tool":
		if p.state() == "input-streaming" {
			j["rawInput"] = p.text
		}
	}
	return j
}

// plain converts values to those of encoding/json, so that they can be compared.
func plain(v any) any {
	switch v := v.(type) {
	case string:
		var out []byte
		for i := 0; i < len(v); { // a lone surrogate becomes one replacement character
			r, n := utf8.DecodeRuneInString(v[i:])
			if r == utf8.RuneError && n == 1 {
				n = 3
			}
			out = utf8.AppendRune(out, r)
			i += n
		}
		return string(out)
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			out[k] = plain(e)
		}
		return out
	case []any:
		out := []any{}
		for _, e := range v {
			out = append(out, plain(e))
		}
		return out
	case bool, json.Number, nil:
		return v
	case chunk.Seq:
		return json.Number(strconv.FormatUint(uint64(v), 10))
	case chunk.Epoch:
		return json.Number(strconv.FormatUint(uint64(v), 10))
	}
	panic(reflect.TypeOf(v).String())
}

// TestReferenceAgrees checks that messages, calls, children, state and status of a random log equal those of the reference.
func TestReferenceAgrees(t *testing.T) {
	laws(t, 80, func(t *rapid.T, a *generator) {
		checkReference(t, a, whole(t, a, len(a.all), true))
	})
}

// checkReference compares s with the reference for all records of a.
func checkReference(t failer, a *generator, s Snapshot) {
	t.Helper()
	w := newReference()
	for _, rec := range a.survivors(len(a.all)) {
		w.take(rec)
	}
	got, _ := refParse(chunk.Value(BrowserForm(s, true, 0).JSON)).(map[string]any)
	want := w.page()
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"messages", got["messages"], want["messages"]},
		{"status", got["status"], want["status"]},
		{"state", got["state"], want["state"]},
		{"children", got["children"], want["children"]},
		{"pending", got["pendingCalls"], want["pending"]},
		{"error", got["error"], want["error"]},
		{"checkpoint", got["checkpointId"], want["checkpointId"]},
		{"run", brief(got["run"]), brief(want["run"])},
		{"past", briefs(got["pastRuns"]), briefs(want["pastRuns"])},
		{"errors", got["errors"], want["errors"]},
		{"structured", got["structured"], want["structured"]},
	} {
		if want := plain(c.want); !reflect.DeepEqual(c.got, want) && (!isEmpty(c.got) || !isEmpty(want)) {
			t.Fatalf("%s:\n got %v\nwant %v", c.what, c.got, want)
		}
	}
	if got, want := fmt.Sprintf("%q, %d runs, %d failed calls", s.counts.title, s.counts.runs, s.counts.failedCalls), w.summary(); got != want {
		t.Fatalf("the summary has %s, want %s", got, want)
	}
	if s.Faults.Skipped != int64(w.skipped) || s.Faults.RejectedPatches != int64(w.patches) || s.Faults.RejectedPieces != int64(w.bad) || s.Position.Seq != w.seq ||
		[3]int64{s.Usage.Input, s.Usage.Output, s.Usage.Cached} != [3]int64(w.usage[:3]) {
		t.Fatalf("faults %+v, usage %+v, seq %d; want %+v", s.Faults, s.Usage, s.Position.Seq, w)
	}
}

func isEmpty(v any) bool {
	l, ok := v.([]any)
	return v == nil || ok && len(l) == 0
}
