package fold

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/chunktest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGolden folds the files of testdata. Each has a log and its results: what a page loads, what it loads with the answer in
// flight, and what is stored. A line of the log has the sequence, step, type and members of the body; "poison" makes the record
// unreadable.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if archive.Files[0].Name != "log" {
				t.Fatalf("%s begins with %s, want log", file, archive.Files[0].Name)
			}
			golden(t, file, archive, parseLog(t, archive.Files[0].Data))
		})
	}
}

// TestTranscripts folds the recorded transcripts, which other packages use too.
func TestTranscripts(t *testing.T) {
	for _, name := range chunktest.Transcripts() {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", "transcripts", name+".txtar")
			archive := &txtar.Archive{Comment: fmt.Appendf(nil, "The root session of transcript %s of chunktest.\n", name), Files: []txtar.File{{Name: "log"}}}
			if !*update {
				var err error
				if archive, err = txtar.ParseFile(file); err != nil {
					t.Fatal(err)
				}
			}
			var log []chunk.Record
			for _, rec := range chunktest.Records(name, chunk.RootSession("acme", "root")) {
				if rec.Session.IsRoot() {
					log = append(log, rec)
				}
			}
			golden(t, file, archive, log)
		})
	}
}

// golden folds a log and compares, or updates, everything except the log.
func golden(t *testing.T, file string, archive *txtar.Archive, log []chunk.Record) {
	t.Helper()
	s := newSnapshot(log[0].Session)
	for i, rec := range log {
		s = take(t, s, rec, log[:i+1])
	}
	equal(t, "reload", reload(t, s), s)
	got := []txtar.File{
		archive.Files[0],
		{Name: "page.json", Data: pretty(t, BrowserForm(s, false, 0).JSON)},
		{Name: "partial.json", Data: pretty(t, BrowserForm(s, true, 0).JSON)},
		{Name: "head.json", Data: pretty(t, s.AppendHead(nil))},
	}
	for _, f := range s.FinishedMessages() {
		got = append(got, txtar.File{Name: fmt.Sprintf("message-%d-%d.json", f.Generation, f.Index), Data: append(f.Data, '\n')})
	}
	want := archive.Files
	archive.Files = got
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if len(got) != len(want) {
		t.Errorf("%d files, want %d; run with -update and read the difference", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i].Name != want[i].Name || !bytes.Equal(got[i].Data, want[i].Data) {
			t.Errorf("%s is\n%s\nwant %s\n%s", got[i].Name, got[i].Data, want[i].Name, want[i].Data)
		}
	}
}

// pretty indents JSON. It does not change strings and numbers.
func pretty(t *testing.T, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, data, "", " "); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	out.WriteByte('\n')
	return out.Bytes()
}

func parseLog(t *testing.T, data []byte) []chunk.Record {
	t.Helper()
	var log []chunk.Record
	epoch := chunk.Epoch(1)
	for line := range strings.Lines(string(data)) {
		field := strings.SplitN(strings.TrimSpace(line), " ", 4)
		if len(field) < 3 {
			t.Fatalf("line %q: want sequence, step, type, members", line)
		}
		seq, err := strconv.Atoi(field[0])
		if err != nil {
			t.Fatal(err)
		}
		if field[2] == string(chunk.TypeRunStarted) && len(log) > 0 {
			epoch++
		}
		members := strings.TrimSuffix(strings.TrimPrefix(strings.Join(field[3:], ""), "{"), "}")
		if members != "" {
			members = "," + members
		}
		rec := chunk.Record{
			Seq: chunk.Seq(seq), Session: session, Epoch: epoch, Ordinal: chunk.Ordinal(len(log) + 1), Type: chunk.Type(field[2]),
			Data: fmt.Appendf(nil, `{"type":%q,"agentId":"s1","agentType":"agent","timestamp":1,"step":%s%s}`, field[2], field[1], members),
		}
		if members == ",poison" {
			rec.Data = []byte(`{"type":"` + field[2] + `"}`)
		} else if _, err := rec.Decode(); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		log = append(log, rec)
	}
	return log
}

// TestEveryType folds each type, full and minimal, in a session without matching records: no chunk panics, and the stored form
// can be read.
func TestEveryType(t *testing.T) {
	s := newSnapshot(session)
	for i, sample := range chunktest.All() {
		data, err := sample.Chunk.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		rec := chunk.Record{Seq: chunk.Seq(i + 1), Session: session, Epoch: 1, Ordinal: chunk.Ordinal(i + 1), Type: sample.Chunk.Type(), Data: data}
		before := s
		if s, err = applyRecord(s, rec); err != nil {
			// A truncated record that lists applied ordinals rolls back.
			if sample.Chunk.Type() != chunk.TypeTruncated {
				t.Fatalf("%s: %v", sample.Name, err)
			}
			if s, err = skipRecord(before, rec, err.Error()); err != nil {
				t.Fatal(err)
			}
		}
		equal(t, sample.Name, reload(t, s), s)
		if !json.Valid(BrowserForm(s, true, 0).JSON) {
			t.Fatalf("%s: no JSON: %s", sample.Name, BrowserForm(s, true, 0).JSON)
		}
	}
}

// TestArbitraryChunks does the same with arbitrary valid chunks: all strings, values and numbers.
func TestArbitraryChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSnapshot(session)
		for i, c := range rapid.SliceOfN(chunktest.Chunks(), 1, 15).Draw(t, "chunks") {
			if c.Type() == chunk.TypeTruncated {
				continue
			}
			data, err := c.AppendJSON(nil)
			if err != nil {
				t.Fatal(err)
			}
			rec := chunk.Record{Seq: chunk.Seq(i + 1), Session: session, Epoch: 1, Ordinal: s.Position.Ordinal + 1, Type: c.Type(), Data: data}
			if s, err = applyRecord(s, rec); err != nil {
				t.Fatalf("%s: %v", data, err)
			}
		}
		equal(t, "reload", reload(t, s), s)
		for _, page := range [][]byte{s.AppendHead(nil), BrowserForm(s, true, 0).JSON, BrowserForm(s, false, 0).JSON} {
			if !json.Valid(page) {
				t.Fatalf("no JSON: %s", page)
			}
		}
	})
}
