package fold

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/structured"
)

func (w *reference) startRun(b chunk.RunStarted, same bool) {
	if w.run["id"] != nil && !same {
		w.runIs("running", "superseded")
		past := maps.Clone(w.run)
		delete(past, "output")
		w.past = append(w.past, past)
		w.past = w.past[max(0, len(w.past)-8):]
	}
	if !same {
		w.runs++
	}
	w.run = map[string]any{"id": b.RunID, "status": "running", "mode": b.Mode, "epoch": w.rec.Epoch}
}

func (w *reference) runIs(was, now string) {
	if w.run["status"] == was {
		w.run["status"] = now
	}
}

func (w *reference) reported(b chunk.Error) {
	e := map[string]any{"seq": w.rec.Seq, "message": b.Error}
	if w.run["id"] != nil {
		e["runId"] = w.run["id"]
	}
	if b.Code != nil {
		e["code"] = *b.Code
	}
	if b.Recoverable {
		e["recoverable"] = true
	}
	w.errors = append(w.errors, e)
	w.errors = w.errors[max(0, len(w.errors)-16):]
}

// summary returns the title, the runs and the failed calls.
func (w *reference) summary() string {
	failed := 0
	for _, m := range w.msgs {
		for _, p := range m.parts {
			if p.state() == "output-error" {
				failed++
			}
		}
	}
	return fmt.Sprintf("%q, %d runs, %d failed calls", w.title, w.runs, failed)
}

// setTitle keeps the title while its message is shown. Otherwise the first of the last n messages has it.
func (w *reference) setTitle(n int) {
	first := len(w.msgs) - n
	if !w.path(w.before(first))[w.titleOf] {
		w.title = ""
	}
	for _, m := range w.msgs[first:] {
		meta, _ := m.metadata.(map[string]any)
		if w.title == "" && meta["hidden"] != true && len(m.parts) > 0 {
			w.title, w.titleOf = m.parts[0].text, m.index
		}
	}
}

// until returns the deadline in the current record outside of its schema.
func (w *reference) until() any {
	data, _ := refParse(w.rec.Data).(map[string]any)
	if n, ok := data["deadline"].(json.Number); ok && !strings.HasPrefix(n.String(), "-") {
		return n
	}
	return nil
}

// refStream has all pieces of a stream and rebuilds its value each time.
type refStream struct {
	id     string
	pieces [][]byte
}

func (st *refStream) value() *structured.Stream {
	var s structured.Stream
	for _, p := range st.pieces {
		_ = s.Apply(p) // rejected pieces too, in order
	}
	return &s
}

func (w *reference) structured(b chunk.Custom) bool {
	m, _ := refParse(b.Data).(map[string]any)
	id, named := m["streamId"].(string)
	at := slices.IndexFunc(w.streams, func(st *refStream) bool { return st.id == id })
	switch b.EventName {
	case structured.PieceEvent:
		if !named {
			w.bad++
			return true
		}
		if at < 0 {
			at = len(w.streams)
			w.streams = append(w.streams, &refStream{id: id})
		}
		st := w.streams[at]
		st.pieces = append(st.pieces, b.Data)
		before := (&refStream{pieces: st.pieces[:len(st.pieces)-1]}).value()
		after := st.value()
		if after.Rejected > before.Rejected {
			w.bad++
			return true
		}
		if after.Status() == structured.Final {
			shown, _ := refParse(after.AppendShown(nil)).(map[string]any)
			w.part(map[string]any{"type": "data-structured", "id": id, "data": map[string]any{
				"dataType": shown["dataType"], "status": "done", "data": shown["data"],
			}})
		}
	case structured.InvalidatedEvent:
		if !named {
			w.bad++
			return true
		}
		if at >= 0 {
			grew := w.streams[at].value().Status() == structured.Streaming
			w.streams = slices.Delete(w.streams, at, at+1)
			if grew {
				return true
			}
		}
		w.part(map[string]any{"type": "data-structured", "id": id, "data": map[string]any{"status": "invalidated"}})
	default:
		return false
	}
	return true
}

func (w *reference) turnStreams() {
	w.streams = slices.DeleteFunc(w.streams, func(st *refStream) bool { return st.value().Status() != structured.Streaming })
}

func (w *reference) growing() []any {
	var out []any
	for _, st := range w.streams {
		if s := st.value(); s.Status() == structured.Streaming {
			out = append(out, refParse(s.AppendShown(nil)))
		}
	}
	return out
}

// brief returns the members of a run that the reference computes.
func brief(run any) any {
	m, _ := run.(map[string]any)
	out := map[string]any{}
	for _, name := range []string{"id", "status", "mode", "epoch", "output"} {
		if v, ok := m[name]; ok {
			out[name] = v
		}
	}
	return out
}

func briefs(runs any) any {
	list, _ := runs.([]any)
	out := []any{}
	for _, r := range list {
		out = append(out, brief(r))
	}
	return out
}

// beginBranch notes the message that the first of new inputs follows, if that is not the one before it.
func (w *reference) beginBranch(inputs []chunk.InputMessage) {
	if len(inputs) == 0 {
		return
	}
	for _, extra := range inputs[0].Extra {
		place, _ := refParse(extra.Value).(string)
		for n := range w.msgs {
			if place != MessageID(n) {
				continue
			}
			follows := n
			if extra.Name == "replaces" {
				follows = w.before(n)
			}
			if follows != len(w.msgs)-1 {
				w.follows[len(w.msgs)] = follows
			}
		}
	}
}

// before returns the message that message n follows.
func (w *reference) before(n int) int {
	if follows, ok := w.follows[n]; ok {
		return follows
	}
	return n - 1
}

// path returns the messages that lead to a message.
func (w *reference) path(last int) map[int]bool {
	out := map[int]bool{}
	for n := last; n >= 0; n = w.before(n) {
		out[n] = true
	}
	return out
}
