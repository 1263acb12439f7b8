//go:build e2e

package aisdk

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	dialect "github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/view"
)

// audiences are views that hide different parts of a message.
var audiences = map[string]view.View{
	"public":       {Preset: view.Public},
	"no reasoning": {Types: []chunk.Type{"*"}, Except: []chunk.Type{chunk.TypeThinking, chunk.TypeCustom}},
	"no calls":     {Types: []chunk.Type{"*"}, Except: []chunk.Type{chunk.TypeToolStart}},
	"no approvals": {Types: []chunk.Type{"*"}, Except: []chunk.Type{chunk.TypeToolApprovalRequest}},
	"no text":      {Types: []chunk.Type{"*"}, Hide: map[chunk.Type][]string{chunk.TypeTextDelta: {"delta"}, chunk.TypeToolEnd: {"result"}, chunk.TypeSubagentEnd: {"result"}}},
	"text":         {Types: []chunk.Type{chunk.TypeTextDelta}},
}

// viewed is a MessageWriter behind a view.
type viewed struct {
	*dialect.MessageWriter

	view *view.Chat
}

func (v viewed) append(dst []byte, rec chunk.Record) []byte {
	if shown, ok := v.view.Record(rec); ok {
		return v.Append(dst, shown)
	}
	return v.Hide(dst, rec)
}

func (v viewed) replay(recs []chunk.Record) []byte {
	r := v.BeginReplay()
	for _, rec := range recs {
		r.FindRemoved(rec)
	}
	return r.Write([]byte{}, func(yield func(chunk.Record, bool) bool) {
		for _, rec := range recs {
			if shown, ok := v.view.Record(rec); ok {
				yield(shown, true)
			} else {
				yield(rec, false)
			}
		}
	}, nil)
}

// The SDK accepts the stream of each scene and of random sessions under each view, replayed at a record and then live. It builds the message of the snapshot under
// the same view, and accepts that snapshot as a history.
func TestViews(t *testing.T) {
	seed := seedtest.Seed(t)
	bothMajors(t, func(t *testing.T, j *sdkClient) {
		t.Helper()
		for _, s := range scenes {
			l := newLog(t)
			s.write(l.root())
			j.readViews(t, s.name, l, func(n int) int { return (n + 1) / 2 })
		}
		for n := range *logs / 4 {
			d := newGenerator(t, seed, uint64(n))
			d.wellFormed()
			j.readViews(t, fmt.Sprintf("-seed %d, log %d", seed, n), d.w.log, func(n int) int { return 1 + d.IntN(n) })
		}
	})
}

func (j *sdkClient) readViews(t *testing.T, name string, l *log, cut func(n int) int) {
	t.Helper()
	for _, audience := range slices.Sorted(maps.Keys(audiences)) {
		compiled, err := audiences[audience].Compile()
		if err != nil {
			t.Fatal(err)
		}
		shows := compiled.Chat()
		for _, turn := range l.turns() {
			opt := dialect.Options{ClientTool: clientTool}
			if j.major == 7 {
				opt.Major = 7
			}
			m := viewed{dialect.New(turn.id, opt), shows}
			n := turn.first + cut(turn.last-turn.first)
			body := m.replay(l.survivors(turn.first, n))
			for ; n < turn.last && !m.Done(); n++ {
				body = m.append(body, l.records[n])
			}
			where := fmt.Sprintf("ai%d, %s, %s, %s", j.major, audience, name, turn.id)
			want, history := l.wantUnder(shows, n, turn.id)
			got := j.fold(t, folding{body: body, want: want, portable: opt.Major < 7})
			removed := strings.Contains(string(body), `"data-truncated"`) // parts were removed that no chunk can remove
			if got.Difference != "" && !removed || len(got.Errors) > 0 && !strings.HasPrefix(got.Errors[0], "Error: ") {
				t.Errorf("%s: %s %v\nbuilt %s\nwant  %s\nfrom %s", where, got.Difference, got.Errors, got.Message, want, body)
			}
			if len(history) == 0 {
				continue
			}
			if errs := j.check(t, history); len(errs) > 0 {
				t.Errorf("%s: invalid snapshot: %v\n%s", where, errs, history)
			}
		}
	}
}

// wantUnder returns the message with an id in the snapshot over the first n records under a view, and all messages of that snapshot.
func (l *log) wantUnder(shows *view.Chat, n int, id string) (message []byte, all []verbatim) {
	l.tb.Helper()
	text, err := shows.Page(dialect.Snapshot(l.snapshot(n), dialect.SnapshotOptions{Partial: true}).AppendJSON(nil))
	if err != nil {
		l.tb.Fatal(err)
	}
	var page struct {
		Messages []json.RawMessage `json:"messages"`
	}
	if err := json.Unmarshal(text, &page); err != nil {
		l.tb.Fatal(err)
	}
	message = []byte(`{"id":"` + id + `","role":"assistant","parts":[]}`)
	for _, m := range page.Messages {
		all = append(all, verbatim(m))
		if strings.HasPrefix(string(m), `{"id":"`+id+`",`) {
			message = m
		}
	}
	return message, all
}
