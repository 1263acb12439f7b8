package fold

import (
	"encoding/json"
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

// twin folds a log the slow and obvious way: it keeps everything, undoes
// nothing and is given only what survived.
type twin struct {
	msgs     []*twinMessage
	cur      *twinMessage // takes parts
	text     *twinPart    // takes text
	calls    map[string]*twinPart
	state    any
	status   string
	pending  []map[string]any
	children map[string]map[string]any
	order    []string // children, in the order they came
	run      map[string]any
	past     []any
	errors   []any
	streams  []*twinStream
	bad      int // pieces of streams
	step     int64
	soft     bool // stopped softly
	turns    int
	join     int // message that the answer goes on in
	opened   bool
	boundary bool
	failure  any
	cp       any
	usage    [4]int64
	skipped  int
	patches  int
	seq      chunk.Seq
	rec      chunk.Record // the one at hand
}

type twinMessage struct {
	index, shown, turn int
	role               string
	parts              []*twinPart
	metadata           any
	replaced           bool
}

type twinPart struct {
	json map[string]any
	text string
	turn int
	msg  *twinMessage
}

func (p *twinPart) state() string { s, _ := p.json["state"].(string); return s }
func (p *twinPart) settled() bool {
	return slices.Contains([]string{"output-available", "output-error", "output-denied"}, p.state())
}

func newTwin() *twin {
	return &twin{run: map[string]any{}, status: "ended", calls: map[string]*twinPart{}, children: map[string]map[string]any{}, join: -1}
}

func (w *twin) take(rec chunk.Record) {
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

func (w *twin) closeMessage() { w.cur, w.text = nil, nil }

func (w *twin) message() *twinMessage {
	if w.cur == nil {
		w.cur = &twinMessage{index: len(w.msgs), shown: w.join, role: "assistant", turn: w.turns}
		if w.join < 0 {
			w.cur.shown, w.join = len(w.msgs), len(w.msgs)
		}
		w.msgs = append(w.msgs, w.cur)
	}
	if w.boundary {
		w.boundary = false
		w.cur.parts = append(w.cur.parts, &twinPart{json: map[string]any{"type": "step-start"}})
	}
	return w.cur
}

func (w *twin) part(j map[string]any) *twinPart {
	m := w.message()
	p := &twinPart{json: j, turn: w.turns, msg: m}
	m.parts = append(m.parts, p)
	return p
}

func (w *twin) say(kind, piece string) {
	if piece == "" {
		return
	}
	if w.text == nil || w.text.json["type"] != kind {
		w.text = w.part(map[string]any{"type": kind})
	}
	w.text.text = chunk.Concat(w.text.text, piece)
}

func (w *twin) control(body chunk.Body) bool {
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
		for id, p := range w.calls { // what is answered, or two turns old, is over
			if p.json == nil || p.settled() || p.turn < w.turns {
				delete(w.calls, id)
			}
		}
		w.turns++
		w.turnStreams()
		w.pending = slices.DeleteFunc(w.pending, func(p map[string]any) bool { return w.calls[p["toolCallId"].(string)] == nil })
		w.replace(b.Input)
		for _, in := range b.Input {
			m := &twinMessage{index: len(w.msgs), shown: len(w.msgs), role: "user", turn: w.turns}
			if in.Content != "" || in.Files == nil {
				m.parts = append(m.parts, &twinPart{json: map[string]any{"type": "text", "state": "done"}, text: in.Content})
			}
			for _, f := range in.Files {
				m.parts = append(m.parts, &twinPart{json: map[string]any{"type": "file", "mediaType": f.MediaType, "url": f.URL}})
			}
			if in.Metadata != nil {
				m.metadata = twinParse(*in.Metadata)
			}
			w.msgs = append(w.msgs, m)
		}
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
				w.run["output"] = twinParse(*b.FinalOutput)
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

func (w *twin) over(already bool) bool {
	if already {
		return false
	}
	w.closeMessage()
	w.boundary = false
	w.pending = slices.DeleteFunc(w.pending, func(p map[string]any) bool { return p["runId"] == w.run["id"] })
	return true
}

func (w *twin) delegated(call string) bool {
	for _, c := range w.children {
		if c["callId"] == call && c["status"] == "running" && c["turn"] == w.turns {
			return true
		}
	}
	return false
}

func (w *twin) awaitClient(id string, deadline any) {
	p := w.calls[id]
	if p == nil || p.json == nil || p.settled() || p.state() == "approval-requested" {
		return
	}
	w.await(id, map[string]any{"kind": "client-tool", "toolCallId": id, "toolName": p.json["toolName"], "deadline": deadline})
}

func (w *twin) await(id string, call map[string]any) {
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

func (w *twin) answered(id string) {
	w.pending = slices.DeleteFunc(w.pending, func(p map[string]any) bool { return p["toolCallId"] == id })
}

// page is what a browser would get, as plain values.
func (w *twin) page() map[string]any {
	var msgs []any
	var ids map[string]bool // of the calls in the message
	var data map[string]int // places of the parts that have an id
	last := -1
	for _, m := range w.msgs {
		if meta, ok := m.metadata.(map[string]any); m.replaced || len(m.parts) == 0 || ok && meta["hidden"] == true {
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

func (w *twin) partJSON(p *twinPart) map[string]any {
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

// plain makes values comparable: what encoding/json makes of them.
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

// The slow twin agrees: messages, calls, children, state and status of any log
// are what the obvious fold of the survivors says.
func TestTwinAgrees(t *testing.T) {
	laws(t, 80, func(t *rapid.T, a *author) {
		twinAgrees(t, a, whole(t, a, len(a.all), true))
	})
}

// twinAgrees compares the fold of all that a wrote.
func twinAgrees(t failer, a *author, s Snapshot) {
	t.Helper()
	w := newTwin()
	for _, rec := range a.survivors(len(a.all)) {
		w.take(rec)
	}
	got, _ := twinParse(chunk.Value(s.Frontend(true, 0).AppendJSON(nil))).(map[string]any)
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
	if s.Faults.Skipped != int64(w.skipped) || s.Faults.Patches != int64(w.patches) || s.Faults.Streams != int64(w.bad) || s.Position.Seq != w.seq ||
		[3]int64{s.Usage.Input, s.Usage.Output, s.Usage.Cached} != [3]int64(w.usage[:3]) {
		t.Fatalf("faults %+v, usage %+v, seq %d; want %+v", s.Faults, s.Usage, s.Position.Seq, w)
	}
}

func isEmpty(v any) bool {
	l, ok := v.([]any)
	return v == nil || ok && len(l) == 0
}
