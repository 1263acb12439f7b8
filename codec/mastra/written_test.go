package mastra

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// tree returns the records of all sessions in the order of the log.
func tree(sessions map[string][]chunk.Record) []chunk.Record {
	records := slices.Concat(slices.Collect(maps.Values(sessions))...)
	slices.SortFunc(records, func(a, b chunk.Record) int { return int(a.Seq) - int(b.Seq) })
	return records
}

// events is a response: the frames of each record.
type events struct {
	records []chunk.Record
	frames  [][]byte
}

// write writes records.
func write(messageID string, records []chunk.Record) events {
	w := NewWriter(messageID)
	out := events{records: records}
	for _, rec := range records {
		out.frames = append(out.frames, w.Append(nil, rec))
	}
	return out
}

// chunksIn returns the chunks in frames, and fails the test if a client would lose one of them.
func chunksIn(tb fataler, frames []byte) (chunks []json.RawMessage, ends bool) {
	tb.Helper()
	if len(frames) > 0 && !bytes.HasSuffix(frames, []byte("\n\n")) {
		tb.Fatalf("the last frame does not end: %q", frames)
	}
	for frame := range strings.SplitSeq(strings.TrimSuffix(string(frames), "\n\n"), "\n\n") {
		switch {
		case frame == "":
		case strings.ContainsAny(frame, "\n\r"):
			tb.Fatalf("a frame of several lines: %q", frame)
		case ends:
			tb.Fatalf("a frame after [DONE]: %q", frame)
		case frame == "data: [DONE]":
			ends = true
		case strings.HasPrefix(frame, "id: "):
		case strings.HasPrefix(frame, "data: "):
			var c json.RawMessage
			if err := json.Unmarshal([]byte(frame[len("data: "):]), &c); err != nil {
				tb.Fatalf("%v: %q", err, frame)
			}
			chunks = append(chunks, c)
		default:
			tb.Fatalf("a frame that clients drop: %q", frame)
		}
	}
	return chunks, ends
}

// body returns all frames of the response.
func (e events) body() []byte { return bytes.Join(e.frames, nil) }

// recording returns the responses of a log, as a recording.
func (e events) recording(tb fataler) recording {
	tb.Helper()
	var r recording
	for _, frames := range e.frames {
		chunks, ends := chunksIn(tb, frames)
		r.Chunks = append(r.Chunks, chunks...)
		if ends {
			r.Chunks = append(r.Chunks, json.RawMessage(`{"leg":2}`))
		}
	}
	return r
}

// TestWrittenRuns writes the log of each recorded run and compares it with a golden file.
func TestWrittenRuns(t *testing.T) {
	const golden = "testdata/written.txt"
	var got bytes.Buffer
	fmt.Fprintln(&got, "Each record of the log of the recorded runs, and the frames that a client gets. Written by go test -update.")
	for _, r := range runs(t) {
		fmt.Fprintf(&got, "\n%s\n", r.Name)
		e := write("msg-1", tree(log(t, translate(t, r))))
		for i, rec := range e.records {
			fmt.Fprintf(&got, "  %s/%s\n", rec.Session.ID, rec.Type)
			for line := range strings.Lines(string(e.frames[i])) {
				if line != "\n" {
					fmt.Fprintf(&got, "    %s", line)
				}
			}
		}
	}
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%s differs; look at the difference after -update. Now:\n%s", golden, got.Bytes())
	}
}

// TestOriginalAgain writes the log of each recorded run and translates what a client gets: the messages of every session are the same.
func TestOriginalAgain(t *testing.T) {
	for _, r := range append(runs(t), cases(t)...) {
		t.Run(r.Name, func(t *testing.T) {
			before := log(t, translate(t, r))
			e := write("msg-1", tree(before))
			after := log(t, translate(t, e.recording(t)))
			sameContent(t, before, after)
		})
	}
}

// sameContent fails the test if the messages of a session in two logs differ in their texts, calls, or errors.
func sameContent(tb fataler, before, after map[string][]chunk.Record) {
	tb.Helper()
	for id, records := range before {
		want, got := contentOf(tb, foldAll(tb, records)), "no session"
		if again := after[id]; again != nil {
			got = contentOf(tb, foldAll(tb, again))
		}
		if got != want {
			tb.Fatalf("session %s\n got %s\nwant %s", id, got, want)
		}
	}
}

// contentOf returns the texts, calls, files, sources and errors of a session.
func contentOf(tb fataler, s fold.Snapshot) string {
	tb.Helper()
	var out strings.Builder
	before := ""
	for _, p := range answer(tb, s) {
		kind, _ := p["type"].(string)
		if kind == "step-start" || strings.HasPrefix(kind, "data-") || p["toolName"] == "unknown" {
			continue // pieces of arguments without a start get one
		}
		if kind == "text" || kind == "reasoning" { // the log has no bounds of blocks of the same kind
			if kind != before {
				fmt.Fprintf(&out, "\n%s ", kind)
			}
			before = kind
			fmt.Fprint(&out, p["text"])
			continue
		}
		before = kind
		if approval, _ := p["approval"].(part); approval != nil {
			delete(approval, "id") // a Translator makes it from the ids of the run and of the call
			if approval["approved"] == true {
				delete(p, "approval") // Mastra has no chunk for it
			}
		}
		if p["state"] == "output-available" && p["providerExecuted"] == nil {
			p["state"] = "input-available" // the client has the outcome of its own calls
			delete(p, "output")
		}
		if p["state"] == "output-error" && p["input"] == nil {
			p["input"] = part{} // an outcome follows a call with some input
		}
		fmt.Fprintf(&out, "\n%s", asJSON(p))
	}
	for _, e := range s.Errors {
		if !e.Recoverable && (s.Failure == nil || e.Message != s.Failure.Message) { // the error that ends a run is written as one
			fmt.Fprintf(&out, "\nerror %s", e.Message)
		}
	}
	if s.Failure != nil {
		fmt.Fprintf(&out, "\nerror %s", s.Failure.Message)
	}
	return out.String()
}
