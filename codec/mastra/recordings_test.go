package mastra

import (
	"bufio"
	"encoding/json"
	"os"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/projector/fold"
)

// recording is a line of testdata/mastra-runs.jsonl or of mastra-cases.jsonl.
type recording struct {
	Name   string            `json:"name"`
	Opts   map[string]any    `json:"opts"`
	Chunks []json.RawMessage `json:"chunks"`
	Expect struct {
		UI struct {
			Message *struct {
				Parts []map[string]any `json:"parts"`
			} `json:"message"`
			Error string `json:"error"`
		} `json:"ui"`
	} `json:"expect"`
}

// recordings reads a file and fails the test if it has not the expected number of lines.
func recordings(tb fataler, name string, want int) []recording {
	tb.Helper()
	file, err := os.Open("testdata/" + name)
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	var all []recording
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r recording
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			tb.Fatal(err)
		}
		all = append(all, r)
	}
	if err := lines.Err(); err != nil {
		tb.Fatal(err)
	}
	if len(all) != want {
		tb.Fatalf("%d recordings in %s, want %d", len(all), name, want)
	}
	return all
}

func runs(tb fataler) []recording  { tb.Helper(); return recordings(tb, "mastra-runs.jsonl", 25) }
func cases(tb fataler) []recording { tb.Helper(); return recordings(tb, "mastra-cases.jsonl", 183) }

// isSeparator reports whether a line of a run only separates two responses.
func isSeparator(raw []byte) bool {
	var line struct {
		Type     string `json:"type"`
		Response int    `json:"leg"`
	}
	return json.Unmarshal(raw, &line) == nil && line.Type == "" && line.Response > 0
}

// step is a Mastra chunk and its translation; raw is nil at the end of a response.
type step struct {
	raw    json.RawMessage
	chunks []chunk.Chunk
}

// translate translates a recording and checks each resulting chunk.
func translate(tb fataler, r recording) []step {
	tb.Helper()
	tr := New(codec.Run{Session: "s1", RunID: "run-0"})
	var steps []step
	for _, raw := range r.Chunks {
		if isSeparator(raw) {
			steps = append(steps, step{chunks: tr.End()})
			continue
		}
		chunks, err := tr.Translate(raw)
		if err != nil {
			tb.Fatalf("%s: %v", raw, err)
		}
		steps = append(steps, step{raw: raw, chunks: chunks})
	}
	steps = append(steps, step{chunks: tr.End()})
	for _, s := range steps {
		for _, c := range s.chunks {
			checkChunk(tb, c)
		}
	}
	return steps
}

// checkChunk fails the test if c is invalid or has members that neither its type nor a part of another dialect has.
func checkChunk(tb fataler, c chunk.Chunk) {
	tb.Helper()
	line, err := c.AppendJSON(nil)
	if err != nil {
		tb.Fatalf("%+v: %v", c, err)
	}
	if _, err := chunk.Decode(line); err != nil {
		tb.Fatalf("%s: %v", line, err)
	}
	for _, m := range c.Extra {
		if m.Name != chunk.PartMember && m.Name != "providerExecuted" {
			tb.Fatalf("%s has the member %s", line, m.Name)
		}
	}
}

var root = chunk.RootSession("acme", "s1")

// log returns the records of each session that a writer would store, with run_started records.
func log(tb fataler, steps []step) map[string][]chunk.Record {
	tb.Helper()
	var seq chunk.Seq
	sessions := map[string][]chunk.Record{}
	write := func(c chunk.Chunk) {
		seq++
		s := root
		if c.AgentID != root.ID {
			s = root.Child(c.AgentID)
		}
		data, err := c.AppendJSON(nil)
		if err != nil {
			tb.Fatal(err)
		}
		sessions[s.ID] = append(sessions[s.ID], chunk.Record{
			Seq: seq, Session: s, Epoch: 1, Ordinal: chunk.Ordinal(len(sessions[s.ID]) + 1), Type: c.Type(), Data: data,
		})
	}
	question := []chunk.InputMessage{{Content: "question"}}
	write(chunk.Chunk{AgentID: root.ID, Body: chunk.RunStarted{RunID: "run-0", Epoch: 1, Mode: "execute", Input: question}})
	for _, s := range steps {
		for _, c := range s.chunks {
			write(c)
			if sub, ok := chunk.As[chunk.SubagentStart](c); ok {
				parent := chunk.Parent{SessionID: c.AgentID, CallID: sub.CallID}
				write(chunk.Chunk{AgentID: sub.SubSessionID, AgentType: sub.SubAgentType, Body: chunk.RunStarted{
					RunID: "run-" + sub.SubSessionID, Epoch: 1, Mode: "execute", Parent: &parent,
				}})
			}
		}
	}
	return sessions
}

// foldAll folds all records of a session.
func foldAll(tb fataler, records []chunk.Record) fold.Snapshot {
	tb.Helper()
	return apply(tb, fold.New(records[0].Session).Snapshot(), records)
}

// apply folds records and fails the test if one of them is a fault.
func apply(tb fataler, s fold.Snapshot, records []chunk.Record) fold.Snapshot {
	tb.Helper()
	folder := fold.From(s)
	for _, rec := range records {
		if err := folder.Apply(rec); err != nil {
			tb.Fatalf("%s: %v", rec.Data, err)
		}
	}
	s = folder.Snapshot()
	if f := s.Faults; f.Skipped+f.RejectedPatches+f.RejectedPieces+f.Lost > 0 {
		tb.Fatalf("faults: %+v", f)
	}
	return s
}

// snapshots returns the folds of all sessions.
func snapshots(tb fataler, r recording) map[string]fold.Snapshot {
	tb.Helper()
	all := map[string]fold.Snapshot{}
	for id, records := range log(tb, translate(tb, r)) {
		all[id] = foldAll(tb, records)
	}
	return all
}
