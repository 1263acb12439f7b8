package dialects_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/codec/agui"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/dialects"
	"github.com/tailrace/tailrace/internal/testkit/turntest"
	"github.com/tailrace/tailrace/internal/testkit/viewtest"
)

// wideLog is a log with all that a log may have, also with what no correct worker writes, and what a client sees of it.
type wideLog struct {
	all, shown turntest.Log
	hides      []bool
}

// wide generates a log that begins at any run, and hides what a random view hides, any records, or none. The control records of the session are not hidden.
func wide(t *rapid.T) wideLog {
	all := turntest.Logs(turntest.Config{Turns: 3, SubAgents: true, Crashes: true, Reuse: true, Wide: true}).Draw(t, "log")
	begins := []int{0}
	for i, rec := range all {
		if rec.Session == turntest.Session && rec.Type == chunk.TypeRunStarted {
			begins = append(begins, i)
		}
	}
	log := wideLog{all: all[rapid.SampledFrom(begins).Draw(t, "begin"):]}
	log.shown, log.hides = slices.Clone(log.all), make([]bool, len(log.all))
	switch rapid.IntRange(0, 2).Draw(t, "hides") {
	case 1:
		chat := viewtest.Views().Draw(t, "view").Chat()
		for i, rec := range log.all {
			of, ok := chat.Record(rec)
			log.hides[i], log.shown[i] = !ok, of
		}
	case 2:
		for i, rec := range log.all {
			log.hides[i] = (rec.Session != turntest.Session || !rec.Type.Control()) && rapid.IntRange(0, 5).Draw(t, "hidden") == 5
		}
	}
	return log
}

// with passes a record to one of two functions of a writer.
func (l wideLog) with(i int, show, hide func(dst []byte, rec chunk.Record) []byte, dst []byte) []byte {
	if l.hides[i] {
		return hide(dst, l.all[i])
	}
	return show(dst, l.shown[i])
}

// lent is with, for a record whose bytes are used again after the call.
func (l wideLog) lent(i int, show, hide func(dst []byte, rec chunk.Record) []byte, dst []byte) []byte {
	return l.with(i, lending(show), lending(hide), dst)
}

func lending(write func(dst []byte, rec chunk.Record) []byte) func([]byte, chunk.Record) []byte {
	return func(dst []byte, rec chunk.Record) []byte {
		rec.Data = slices.Clone(rec.Data)
		defer clear(rec.Data)
		return write(dst, rec)
	}
}

// opener draws the options of a turn, and returns a function that opens a writer of it.
func opener(t *rapid.T, name string) func() codec.Writer {
	flag := func(what string) bool { return rapid.Bool().Draw(t, what) }
	of := dialects.Turn{Session: turntest.Session, MessageID: rapid.SampledFrom([]string{"msg-1", "é\"\n"}).Draw(t, "id")}
	of.State = rapid.SampledFrom([]chunk.Value{nil, chunk.Value(`{}`), chunk.Value(`{"a":[1],"b":{"c":"x"}}`)}).Draw(t, "state")
	if flag("client tools") {
		of.AISDK.ClientTool = turntest.IsClientTool
	}
	switch name {
	case dialect.AGUI:
		opt := agui.Options{State: of.State, SubAgents: flag("sub-agents"), ClientTool: of.AISDK.ClientTool}
		if flag("omits") {
			for i := range 6 {
				opt.Omit = append(opt.Omit, fmt.Sprintf("c%d", i), fmt.Sprintf("q%d", i), dialect.CallID(fmt.Sprintf("k%d", i), fmt.Sprintf("q%d", i)))
			}
		}
		return func() codec.Writer { return agui.New(of.MessageID, opt) }
	case dialect.AISDK:
		of.AISDK.Major = rapid.SampledFrom([]int{0, 6, 7}).Draw(t, "major")
		of.AISDK.SubAgents = rapid.SampledFrom([]aisdk.SubAgentContent{aisdk.Drop, aisdk.Inline, aisdk.Data}).Draw(t, "content of sub-agents")
	}
	return func() codec.Writer { return dialects.NewWriter(name, of) }
}

// TestWideLogs checks that each event of a response is JSON, that only the last event of a record has an id, which is the cursor of the record, and that a writer
// keeps no bytes of a record: the caller uses them again. The client connects again at any place, once or after each record.
func TestWideLogs(t *testing.T) {
	for _, name := range dialects.Written() {
		if name == dialect.Native {
			continue
		}
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				log, open := wide(t), opener(t, name)
				always, resumes := rapid.IntRange(0, 3).Draw(t, "always") == 3, rapid.IntRange(0, len(log.all)).Draw(t, "resumes")
				kept, reused := open(), open()
				for i, rec := range log.all {
					if always || i == resumes {
						frames := kept.Resume(nil)
						checkFrames(t, frames, chunk.Cursor{})
						checkEqual(t, frames, reused.Resume(nil))
					}
					frames := log.with(i, kept.Append, kept.Hide, nil)
					checkFrames(t, frames, rec.Cursor())
					checkEqual(t, frames, log.lent(i, reused.Append, reused.Hide, nil))
					if kept.Done() != reused.Done() {
						t.Fatalf("Done of two writers with the same records: %t, %t", kept.Done(), reused.Done())
					}
				}
			})
		})
	}
}

// TestWideHistories checks the same of the responses of chat: a client has the records up to any place, those up to another one are history, and the others follow.
func TestWideHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log, open := wide(t), opener(t, dialect.AISDK)
		has := rapid.IntRange(0, len(log.all)).Draw(t, "has")
		stored := rapid.IntRange(has, len(log.all)).Draw(t, "stored")
		begins := rapid.IntRange(0, 2).Draw(t, "begins")
		respond := func(with func(i int, show, hide func([]byte, chunk.Record) []byte, dst []byte) []byte) (all [][]byte) {
			w, ok := open().(*aisdk.MessageWriter)
			if !ok {
				t.Fatal("the writer of the AI SDK has no histories")
			}
			skip := func(read func(chunk.Record)) func([]byte, chunk.Record) []byte {
				return func(dst []byte, rec chunk.Record) []byte {
					read(rec)
					return dst
				}
			}
			for i := range has {
				with(i, skip(w.Advance), w.Hide, nil)
			}
			switch begins {
			case 1:
				w.Continue()
			case 2:
				all = append(all, w.Resume(nil))
			}
			r := w.BeginReplay()
			for i := has; i < stored; i++ {
				with(i, skip(r.FindRemoved), skip(r.FindRemoved), nil)
			}
			rest := r.Write(nil, func(yield func(chunk.Record, bool) bool) {
				for i := has; i < stored; i++ {
					with(i, skip(func(rec chunk.Record) { yield(rec, true) }), skip(func(rec chunk.Record) { yield(rec, false) }), nil)
				}
			}, func(frames []byte) []byte {
				all = append(all, frames)
				return nil
			})
			all = append(all, rest)
			for i := stored; i < len(log.all); i++ {
				if w.Done() {
					w.Continue()
				}
				all = append(all, with(i, w.Append, w.Hide, nil))
			}
			return append(all, w.Finish(nil))
		}
		kept, reused := respond(log.with), respond(log.lent)
		if len(kept) != len(reused) {
			t.Fatalf("%d and %d pieces of frames of the same records", len(kept), len(reused))
		}
		for i, frames := range kept {
			checkJSON(t, frames)
			checkEqual(t, frames, reused[i])
		}
	})
}

func checkEqual(t *rapid.T, kept, reused []byte) {
	t.Helper()
	if !bytes.Equal(kept, reused) {
		t.Fatalf("with records that are kept:\n%s\nthat are used again:\n%s", kept, reused)
	}
}

// checkJSON checks that each event is JSON, or the end mark. Their ids are cursors of the history.
func checkJSON(t *rapid.T, frames []byte) {
	t.Helper()
	for line := range bytes.Lines(frames) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		data, isData := bytes.CutPrefix(line, []byte("data: "))
		if len(line) > 0 && !bytes.HasPrefix(line, []byte("id: ")) && (!isData || string(data) != "[DONE]" && !json.Valid(data)) {
			t.Fatalf("line %q of:\n%s", line, frames)
		}
	}
}

// checkFrames checks the frames of a record with a cursor. The zero cursor is for frames without an id.
func checkFrames(t *rapid.T, frames []byte, at chunk.Cursor) {
	t.Helper()
	identified := false
	for event := range bytes.SplitSeq(frames, []byte("\n\n")) {
		for line := range bytes.SplitSeq(event, []byte("\n")) {
			data, isData := bytes.CutPrefix(line, []byte("data: "))
			id, isID := bytes.CutPrefix(line, []byte("id: "))
			switch {
			case len(line) == 0:
			case isData && string(data) == "[DONE]":
			case isData && json.Valid(data) && !identified:
			case isID && !identified && bytes.Equal(id, at.Append(nil)) && at != chunk.Cursor{}:
			default:
				t.Fatalf("line %q of the record %s:\n%s", line, at.Append(nil), frames)
			}
			identified = identified || isID && len(event) == len(line) // an event of its own follows the others
		}
		identified = identified || bytes.HasPrefix(event, []byte("id: "))
	}
}
