package langgraph

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/internal/testkit/turntest"
)

// written is an event, and its bytes.
type written struct {
	ID     string `json:"event_id"`
	Method string `json:"method"`
	Params struct {
		Namespace []string `json:"namespace"`
		Data      struct {
			Name string `json:"name"`
		} `json:"data"`
	} `json:"params"`
	text string
}

// write returns the events of the first turn of a log.
func write(t *rapid.T, log turntest.Log, f WriterConfig) (all []written) {
	f.MessageID = "msg-1"
	w := NewWriter(f)
	var frames []byte
	for _, rec := range log {
		frames = w.Append(frames, rec)
	}
	for line := range strings.Lines(string(frames)) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok {
			continue
		}
		e := written{text: data}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%v in %q", err, data)
		}
		all = append(all, e)
	}
	return all
}

// A client gets those events that its filter selects, with the ids and bytes that they have without a filter; and no id is used twice.
func TestFilter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := turntest.Logs(turntest.Config{Turns: 2, SubAgents: true, Crashes: true, Reuse: true, Wide: true}).Draw(t, "log")
		all, used := write(t, log, WriterConfig{}), make(map[string]bool)
		for _, e := range all {
			if used[e.ID] {
				t.Fatalf("the id %s is used twice", e.ID)
			}
			used[e.ID] = true
		}
		f := WriterConfig{Channels: rapid.SliceOf(rapid.SampledFrom([]string{"messages", "lifecycle", "tools", "input", "custom", "custom:a", "values"})).Draw(t, "channels")}
		if f.Channels == nil {
			f.Channels = []string{}
		}
		depth := rapid.IntRange(0, 2).Draw(t, "depth")
		if rapid.Bool().Draw(t, "namespaces") {
			f.Namespaces, f.Depth = [][]string{{}}, &depth
		}
		want := slices.DeleteFunc(slices.Clone(all), func(e written) bool {
			channel, _, _ := strings.Cut(e.Method, ".")
			listed := slices.Contains(f.Channels, channel) || channel == "custom" && slices.Contains(f.Channels, "custom:"+e.Params.Data.Name)
			return !listed || f.Depth != nil && len(e.Params.Namespace) > depth
		})
		got := write(t, log, f)
		if !slices.EqualFunc(got, want, func(a, b written) bool { return a.text == b.text }) {
			t.Fatalf("%v selects\n%v\nwant\n%v", f, got, want)
		}
	})
}

// A prefix of a namespace without a colon is that of any call.
func TestNamespaces(t *testing.T) {
	for _, tt := range []struct {
		prefix, namespace []string
		want              bool
	}{
		{[]string{}, []string{}, true},
		{[]string{"a"}, []string{}, false},
		{[]string{"a"}, []string{"a:c1"}, true},
		{[]string{"a"}, []string{"a:c1", "b:c2"}, true},
		{[]string{"a:c1"}, []string{"a:c2"}, false},
		{[]string{"a:c1", "b"}, []string{"a:c1", "b:c2", "model:s"}, true},
	} {
		if got := isBelow(tt.namespace, tt.prefix); got != tt.want {
			t.Errorf("%q below %q: %t, want %t", tt.namespace, tt.prefix, got, tt.want)
		}
	}
}

// A writer of a client that has the records so far continues with the next events.
func TestResume(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := turntest.Logs(turntest.Config{Turns: 1, SubAgents: true, Crashes: true}).Draw(t, "log")
		at := rapid.IntRange(1, len(log)).Draw(t, "at")
		whole, resumed := NewWriter(WriterConfig{}), NewWriter(WriterConfig{})
		var want, got []byte
		for i, rec := range log {
			if frames := whole.Append(nil, rec); i >= at {
				want = append(want, frames...)
			}
			if frames := resumed.Append(nil, rec); i >= at {
				got = append(got, frames...)
			} else if i == at-1 {
				got = resumed.Resume(got)
			}
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("after %d records:\n%s\nwant\n%s", at, got, want)
		}
	})
}
