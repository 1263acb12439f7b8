package chunk_test

import (
	"flag"
	"os"
	"reflect"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/chunktest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const catalogue = "testdata/catalogue.txtar"

// Every type, full and minimal, has exactly the JSON in testdata/catalogue.txtar, which decodes to the same value.
func TestCatalogue(t *testing.T) {
	if *update {
		writeCatalogue(t)
	}
	golden, err := txtar.ParseFile(catalogue)
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]string)
	for _, f := range golden.Files {
		want[f.Name] = string(f.Data)
	}
	for _, s := range chunktest.All() {
		t.Run(s.Name, func(t *testing.T) {
			got, err := s.Chunk.AppendJSON(nil)
			if err != nil {
				t.Fatal(err)
			}
			if want[s.Name] != string(got)+"\n" {
				t.Errorf("JSON is\n%s\nwant\n%s", got, want[s.Name])
			}
			back, err := chunk.Decode(got)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(back, s.Chunk) {
				t.Errorf("read back as\n%#v\nwant\n%#v", back, s.Chunk)
			}
		})
	}
	if len(want) != len(chunktest.All()) {
		t.Errorf("%s has %d samples, want %d", catalogue, len(want), len(chunktest.All()))
	}
}

func writeCatalogue(t *testing.T) {
	t.Helper()
	golden := &txtar.Archive{Comment: []byte("The JSON of every type: with all its members and some unknown ones, and\nwith the required ones only. Read and written by TestCatalogue.\n\n")}
	for _, s := range chunktest.All() {
		text, err := s.Chunk.AppendJSON(nil)
		if err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		golden.Files = append(golden.Files, txtar.File{Name: s.Name, Data: append(text, '\n')})
	}
	if err := os.WriteFile(catalogue, txtar.Format(golden), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The transcripts, whose members are in the order of the schema, are the same after they are decoded and encoded.
func TestTranscripts(t *testing.T) {
	for _, name := range chunktest.Transcripts() {
		t.Run(name, func(t *testing.T) {
			for i, line := range chunktest.Lines(name) {
				c, err := chunk.Decode(line)
				if err != nil {
					t.Fatalf("line %d: %v", i+1, err)
				}
				got, err := c.AppendJSON(nil)
				if err != nil {
					t.Fatalf("line %d: %v", i+1, err)
				}
				if a, b := mustParse(t, line), mustParse(t, got); !sameJSON(a, b) {
					t.Errorf("line %d is written as\n%s\nwas\n%s", i+1, got, line)
				}
			}
			for i, r := range chunktest.Records(name, chunk.RootSession("t", "root")) {
				if r.Ordinal == 0 || r.Epoch == 0 || r.Type == "" {
					t.Errorf("record %d lacks its place: %+v", i, r)
				}
			}
		})
	}
}
