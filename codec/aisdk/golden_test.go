package aisdk

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/tailrace/tailrace/chunk"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGolden compares the frames for the log and the options of each file in testdata with the files in it. live.sse is the response for a client that reads
// from the start and posts an answer to each pending call; ": continuation" separates the responses. replay.sse is the response for a client that connects
// after the last record. With the option "cursor", tail.sse is the same for a client that has the records up to the cursor. With the option "again", again.sse
// is the response to an answer that is posted a second time.
//
// A line of the log is sequence, step, type and the members of the body; a name before it selects a sub-agent.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	types := map[string]bool{}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { golden(t, file, types) })
	}
	for typ := range schema {
		if !types[typ] {
			t.Errorf("no file has a chunk %s", typ)
		}
	}
}

func golden(t *testing.T, file string, types map[string]bool) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	set := newSetting(t, archive)
	got := slices.DeleteFunc(slices.Clone(archive.Files), func(f txtar.File) bool { return strings.HasSuffix(f.Name, ".sse") })
	for _, name := range slices.Sorted(maps.Keys(set.views)) {
		frames := set.views[name]()
		got = append(got, txtar.File{Name: name + ".sse", Data: frames})
		for part := range bytes.SplitSeq(frames, []byte(": continuation\n\n")) {
			for event := range strings.SplitSeq(string(part), `data: {"type":"`) {
				typ, _, _ := strings.Cut(event, `"`)
				if strings.HasPrefix(typ, "data-") {
					typ = "data-"
				}
				types[typ] = true
			}
		}
	}
	if *update {
		archive.Files = got
		if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if len(archive.Files) != len(got) {
		t.Fatalf("%d files, want %d", len(archive.Files), len(got))
	}
	for i, want := range archive.Files {
		if want.Name != got[i].Name || !bytes.Equal(want.Data, got[i].Data) {
			t.Errorf("%s\ngot\n%s\nwant\n%s", want.Name, got[i].Data, want.Data)
		}
	}
}

// setting is a log and the options of its clients.
type setting struct {
	t     *testing.T
	log   []chunk.Record
	opt   Options
	after chunk.Seq
	views map[string]func() []byte
}

func newSetting(t *testing.T, archive *txtar.Archive) *setting {
	t.Helper()
	s := &setting{t: t, opt: Options{ClientTool: isClientTool}}
	s.views = map[string]func() []byte{"live": s.live, "replay": s.replay}
	for _, f := range archive.Files {
		switch f.Name {
		case "log":
			s.read(string(f.Data))
		case "options":
			s.options(string(f.Data))
		}
	}
	return s
}

func (s *setting) options(text string) {
	for line := range strings.Lines(text) {
		switch line = strings.TrimSpace(line); {
		case line == "major 7":
			s.opt.Major = 7
		case line == "inline":
			s.opt.SubAgents = Inline
		case line == "data":
			s.opt.SubAgents = Data
		case line == "again":
			s.views["again"] = s.again
		case strings.HasPrefix(line, "cursor "):
			if _, err := fmt.Sscanf(line, "cursor %d", &s.after); err != nil {
				s.t.Fatal(err)
			}
			s.views["tail"] = s.tail
		default:
			s.t.Fatalf("option %q", line)
		}
	}
}

func (s *setting) read(text string) {
	s.t.Helper()
	last := map[string]chunk.Ordinal{}
	epoch := map[string]chunk.Epoch{}
	for line := range strings.Lines(text) {
		agent := "root"
		if line[0] > '9' {
			agent, line, _ = strings.Cut(line, " ")
		}
		var seq chunk.Seq
		var step int
		var typ chunk.Type
		if _, err := fmt.Sscan(line, &seq, &step, &typ); err != nil {
			s.t.Fatalf("%q: %v", line, err)
		}
		members := strings.TrimSpace(line[strings.IndexByte(line, '{')+1:])
		if members != "}" {
			members = "," + members
		}
		rec := chunk.Record{
			Seq: seq, Session: chunk.RootSession("t", "root"), Type: typ, StoredAt: time.UnixMilli(1000 * int64(seq)),
			Data: fmt.Appendf(nil, `{"type":%q,"agentId":%q,"agentType":"a","timestamp":1,"step":%d%s`, typ, agent, step, members),
		}
		if agent != "root" {
			rec.Session = rec.Session.Child(agent)
		}
		if _, err := rec.Decode(); err != nil && typ != "poison" {
			s.t.Fatalf("%s: %v", rec.Data, err)
		}
		last[agent]++
		if typ == chunk.TypeRunStarted {
			epoch[agent]++
		}
		rec.Ordinal, rec.Epoch = last[agent], epoch[agent]
		s.log = append(s.log, rec)
	}
}

// fit checks that the client accepts the frames.
func (s *setting) fit(c *client, frames []byte) {
	s.t.Helper()
	if err := c.read(frames); err != nil {
		s.t.Errorf("%v\nin\n%s", err, frames)
	}
}

func (s *setting) live() []byte {
	m, c := New("msg-1", s.opt), newClient(s.opt.Major)
	var out []byte
	for _, rec := range s.log {
		if m.Done() {
			m.Continue()
			c.open()
		}
		frames := m.Append(nil, rec)
		s.fit(c, frames)
		if len(out) > 0 && bytes.Contains(frames, []byte(`{"type":"start",`)) {
			out = append(out, ": continuation\n\n"...)
		}
		out = append(out, frames...)
	}
	return out
}

func (s *setting) replay() []byte {
	m, c := New("msg-1", s.opt), newClient(s.opt.Major)
	out := m.Replay(nil, s.log)
	s.fit(c, out)
	return out
}

func (s *setting) tail() []byte {
	m, c := New("msg-1", s.opt), newClient(s.opt.Major)
	before := New("msg-1", s.opt)
	n := 0
	for ; s.log[n].Seq <= s.after; n++ {
		m.Advance(s.log[n])
		if c.ended {
			c.open()
		}
		s.fit(c, before.Append(nil, s.log[n]))
	}
	out := m.Replay(nil, s.log[n:])
	s.fit(c, out)
	return out
}

func (s *setting) again() []byte {
	m := New("msg-1", s.opt)
	for _, rec := range s.log {
		m.Advance(rec)
	}
	m.Continue()
	return m.Finish(nil)
}
