package helix_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/helix"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Each file in testdata has a part of the log of the root "root" and its sub-agent "kid", and the exact bytes that readers of the tree and of each session get.
// A record is "sequence session json"; its type is that of the JSON.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d golden files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			golden, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			records := parseRecords(t, golden.Files[0].Data)
			got := []txtar.File{
				golden.Files[0],
				{Name: "tree.sse", Data: frames(records, chunk.ScopeTree, "")},
				{Name: "root.sse", Data: frames(records, chunk.ScopeSession, "root")},
				{Name: "kid.sse", Data: frames(records, chunk.ScopeSession, "kid")},
			}
			if *update {
				golden.Files = got
				if err := os.WriteFile(file, txtar.Format(golden), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for i, want := range golden.Files {
				if !bytes.Equal(want.Data, got[i].Data) {
					t.Errorf("%s\ngot\n%s\nwant\n%s", want.Name, got[i].Data, want.Data)
				}
			}
		})
	}
}

func parseRecords(t *testing.T, text []byte) []chunk.Record {
	t.Helper()
	var records []chunk.Record
	for line := range strings.Lines(string(text)) {
		var seq chunk.Seq
		var id string
		if _, err := fmt.Sscan(line, &seq, &id); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		data := line[strings.IndexByte(line, '{'):]
		root := chunk.RootSession("default", "root")
		rec := chunk.Record{Seq: seq, Session: root, Data: []byte(strings.TrimSuffix(data, "\n"))}
		if id != "root" {
			rec.Session = root.Child(id)
		}
		_, typ, _ := strings.Cut(data, `"type":"`)
		typ, _, _ = strings.Cut(typ, `"`)
		rec.Type = chunk.Type(typ)
		records = append(records, rec)
	}
	return records
}

func frames(records []chunk.Record, scope chunk.Scope, of string) []byte {
	var wire []byte
	for _, rec := range records {
		if of == "" || rec.Session.ID == of {
			wire = helix.Encode(wire, rec, scope)
		}
	}
	return wire
}

func TestResync(t *testing.T) {
	step := 2
	for _, tt := range []struct {
		cause *chunk.TruncatedError
		want  string
	}{
		{
			&chunk.TruncatedError{Reason: chunk.TruncatedExpired, After: 7, FirstSeq: 30},
			"id: 41\ndata: {\"type\":\"truncated\",\"reason\":\"expired\",\"resumeFrom\":41}\n\n",
		},
		{
			&chunk.TruncatedError{Reason: chunk.TruncatedCleanup, Step: &step, HighWatermark: 40},
			"id: 41\ndata: {\"type\":\"truncated\",\"reason\":\"cleanup\",\"resumeFrom\":41,\"truncatedAtStep\":2,\"atSequence\":40}\n\n",
		},
	} {
		if got := string(helix.Resync(nil, tt.cause, chunk.Cursor{Seq: 41})); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.cause.Reason, got, tt.want)
		}
	}
}

// FuzzEncode: for any bytes and any type of a record, the frame is one id, one data line and a blank line, and it depends on the scope as Encode documents. The
// hub relies on this.
func FuzzEncode(f *testing.F) {
	for _, typ := range []string{"text_delta", "run_started", "stream_end", "stream_failed", "stream_paused", "truncated", "x\ny"} {
		f.Add(typ, []byte(`{"a":1}`), true)
		f.Add(typ, []byte("{\n \"error\":\r\n\"a\",\"finalOutput\":[1,\n2]}"), false)
		f.Add(typ, []byte("}\n\nid: 99\ndata: x"), false)
		f.Add(typ, []byte{}, true)
	}
	f.Fuzz(func(t *testing.T, typ string, data []byte, root bool) {
		rec := chunk.Record{Seq: 7, Session: chunk.RootSession("t", "r"), Type: chunk.Type(typ), Data: data}
		if !root {
			rec.Session = rec.Session.Child("c")
		}
		tree := string(helix.Encode(nil, rec, chunk.ScopeTree))
		alone := string(helix.Encode(nil, rec, chunk.ScopeSession))
		for _, frame := range []string{tree, alone} {
			if frame == "" {
				continue
			}
			lines := strings.SplitAfter(frame, "\n")
			if len(lines) != 4 || lines[0] != "id: 7\n" || !strings.HasPrefix(lines[1], `data: {"type":"`) || lines[2] != "\n" || lines[3] != "" ||
				strings.ContainsRune(frame, '\r') {
				t.Fatalf("frame %s", strconv.Quote(frame))
			}
		}
		differs := tree != alone
		if differs && (root || !rec.Type.Control() || rec.Type == chunk.TypeRunStarted) {
			t.Fatalf("scopes differ for %q of a root (%t): %q, %q", typ, root, tree, alone)
		}
		if alone == "" {
			t.Fatalf("nothing to show for %q to a reader of the session alone", typ)
		}
	})
}
