package kortyx

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/projector/fold"
)

// fuzzed translates lines, with the end of a response at each line that is empty, and returns the records.
func fuzzed(tb testing.TB, text []byte) []chunk.Record {
	tb.Helper()
	tr := New(codec.Run{Session: "s1", RunID: "r0"})
	var log []chunk.Record
	add := func(chunks []chunk.Chunk) {
		for _, c := range chunks {
			data, err := c.AppendJSON(nil)
			if err != nil {
				tb.Fatal(err)
			}
			if c.AgentID != "s1" {
				tb.Fatalf("a chunk of %q", c.AgentID)
			}
			n := len(log) + 2
			log = append(log, chunk.Record{Seq: chunk.Seq(n), Session: session, Epoch: 1, Ordinal: chunk.Ordinal(n), Type: c.Type(), Data: data})
		}
	}
	for line := range bytes.Lines(text) {
		if len(bytes.TrimSpace(line)) == 0 {
			add(tr.End())
			continue
		}
		if chunks, err := tr.Translate(line); err == nil {
			add(chunks)
		}
	}
	add(tr.End())
	return append([]chunk.Record{recordOf(tb, session, 1, 1, 1, 0, chunk.RunStarted{RunID: "r0", Epoch: 1, Mode: "execute"})}, log...)
}

// FuzzTranslate checks for any lines that Translate and End return valid chunks that fold without a malformed record, that the run is not running at the end of
// its body, that no resume token is in the log, that the same lines give the same chunks, and that the writer's frames of them are ones that a client accepts.
func FuzzTranslate(f *testing.F) {
	for _, text := range []string{
		approval + "\n" + done + "\n\n" + `{"type":"tool-call-result","tool":"rm","toolCallId":"c1","content":"ok"}` + "\n" + done,
		question + "\n" + `{"type":"checkpoint","id":"cp","sessionId":"x","turnIndex":3}` + "\n" + done,
		`{"type":"text-delta","opId":"o","segmentId":"1","delta":"a"}` + "\n" + `{"type":"text-delta","opId":"o","segmentId":"2","delta":"\ud83d"}` + "\n" + `{"type":"error","message":"boom"}`,
		`{"type":"structured-data","streamId":"s","dataType":"report","kind":"set","path":"a.0","value":{"resumeToken":1}}` + "\n" + `{"type":"structured-data","streamId":"s","dataType":"report","kind":"final","data":1}`,
		`{"type":"structured-data-invalidated","streamId":"s","checkpointId":"c"}` + "\n" + `{"type":"tool-call-start","tool":"f","toolCallId":"c","input":[1]}` + "\n" + `{"type":"message","content":"x"}`,
		`{"type":"session","sessionId":"s"}` + "\n" + `{"type":"trace","runId":"r"}` + "\n" + `{"type":"transition","transitionTo":"w"}` + "\n" + `{"type":"status","message":"m"}` + "\n" + `{"type":"tool-result","content":1}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		log := fuzzed(t, text)
		folder := fold.New(session)
		for _, rec := range log {
			if err := folder.Apply(rec); err != nil {
				t.Fatalf("%s: %v", rec.Data, err)
			}
			if rec.Type == chunk.TypeCustom {
				if name, _ := dialect.Read(rec.Data).Text("eventName"); name == "kortyx.interrupt" && bytes.Contains(rec.Data, []byte(`"resumeToken"`)) {
					t.Fatalf("a token is in the log: %s", rec.Data)
				}
			}
		}
		if s := folder.Snapshot(); s.Status == fold.Active {
			t.Fatal("the run is still running at the end of its body")
		}
		again := fuzzed(t, text)
		for i := range log {
			if !bytes.Equal(log[i].Data, again[i].Data) {
				t.Fatalf("once %s\nthen %s", log[i].Data, again[i].Data)
			}
		}
		var c client
		body := ""
		for _, frames := range write(log) {
			checkFrames(t, frames)
			if body += frames; strings.HasSuffix(frames, "[DONE]\n\n") {
				c.follow(t, body)
				body = ""
			}
		}
		c.follow(t, body)
	})
}
