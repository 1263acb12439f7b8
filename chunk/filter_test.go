package chunk_test

import (
	"errors"
	"iter"
	"slices"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/chunktest"
)

var errSource = errors.New("the source broke")

type stream = iter.Seq2[chunk.Record, error]

// source yields records, then err if it is not nil, and records how it was consumed.
type source struct {
	records []chunk.Record
	err     error
	asked   int // number of yielded records
}

func (s *source) all() stream {
	return func(yield func(chunk.Record, error) bool) {
		for _, r := range s.records {
			s.asked++
			if !yield(r, nil) {
				return
			}
		}
		if s.err != nil {
			yield(chunk.Record{}, s.err)
		}
	}
}

func recorded(name string) []chunk.Record {
	return chunktest.Records(name, chunk.RootSession("t", "root"))
}

// helpers has every stream helper, with arguments that accept a part of the transcript "subagents".
var helpers = map[string]func(stream) stream{
	"Filter":          func(s stream) stream { return chunk.Filter(s, func(r chunk.Record) bool { return r.Seq%2 == 0 }) },
	"FilterType":      func(s stream) stream { return chunk.FilterType(s, chunk.TypeTextDelta, chunk.TypeStreamEnd) },
	"ExcludeTypes":    func(s stream) stream { return chunk.ExcludeTypes(s, chunk.TypeTextDelta) },
	"FilterAgent":     func(s stream) stream { return chunk.FilterAgent(s, "child-a", "child-b") },
	"FilterAgentType": func(s stream) stream { return chunk.FilterAgentType(s, "researcher") },
	"Take":            func(s stream) stream { return chunk.Take(s, 5) },
	"Skip":            func(s stream) stream { return chunk.Skip(s, 5) },
	"Combine":         func(s stream) stream { return chunk.Combine(background, of(s)) },
}

// Every helper yields what a simple loop yields.
func TestHelpersMatchASimpleLoop(t *testing.T) {
	all := recorded("subagents")
	field := func(r chunk.Record, name string) jsonString {
		v, _ := mustParse(t, r.Data).(jsonObject)[key(name)].(jsonString)
		return v
	}
	wants := map[string]func(i int, r chunk.Record) bool{
		"Filter":       func(_ int, r chunk.Record) bool { return r.Seq%2 == 0 },
		"FilterType":   func(_ int, r chunk.Record) bool { return r.Type == "text_delta" || r.Type == "stream_end" },
		"ExcludeTypes": func(_ int, r chunk.Record) bool { return r.Type != "text_delta" },
		"FilterAgent": func(_ int, r chunk.Record) bool {
			return field(r, "agentId") == key("child-a") || field(r, "agentId") == key("child-b")
		},
		"FilterAgentType": func(_ int, r chunk.Record) bool { return field(r, "agentType") == key("researcher") },
		"Take":            func(i int, _ chunk.Record) bool { return i < 5 },
		"Skip":            func(i int, _ chunk.Record) bool { return i >= 5 },
		"Combine":         func(int, chunk.Record) bool { return true },
	}
	for name, helper := range helpers {
		t.Run(name, func(t *testing.T) {
			var want []chunk.Seq
			for i, r := range all {
				if wants[name](i, r) {
					want = append(want, r.Seq)
				}
			}
			got, err := chunk.CollectAll(helper((&source{records: all}).all()))
			if err != nil || len(want) == 0 || !slices.Equal(seqs(got), want) {
				t.Errorf("got %v, %v, want %v", seqs(got), err, want)
			}
		})
	}
}

func seqs(records []chunk.Record) []chunk.Seq {
	var out []chunk.Seq
	for _, r := range records {
		out = append(out, r.Seq)
	}
	return out
}

// Every helper yields an error of the source, once and last.
func TestHelpersYieldErrorsLast(t *testing.T) {
	for name, helper := range helpers {
		t.Run(name, func(t *testing.T) {
			s := &source{records: recorded("subagents")[:3], err: errSource}
			failed := 0
			for _, err := range helper(s.all()) {
				if failed > 0 {
					t.Error("something after the error")
				}
				if err != nil {
					failed++
				}
				if err != nil && !errors.Is(err, errSource) {
					t.Errorf("err = %v", err)
				}
			}
			if failed != 1 {
				t.Errorf("%d errors, want 1", failed)
			}
		})
	}
}

// If the consumer stops, the source is stopped, and no helper yields again: the range statement would panic.
func TestHelpersStopWithTheConsumer(t *testing.T) {
	for name, helper := range helpers {
		t.Run(name, func(t *testing.T) {
			s := &source{records: recorded("subagents")}
			for range helper(s.all()) {
				break
			}
			if s.asked == len(s.records) {
				t.Error("the source was read to its end")
			}
		})
	}
}

// Take does not wait for a record after the last one that it yields.
func TestTakeStopsAfterItsLastRecord(t *testing.T) {
	for _, n := range []int{-1, 0, 1, 3} {
		s := &source{records: recorded("plain")}
		got, err := chunk.CollectAll(chunk.Take(s.all(), n))
		if want := max(n, 0); err != nil || len(got) != want || s.asked != want {
			t.Errorf("Take(%d): %d records, %d asked for, %v", n, len(got), s.asked, err)
		}
	}
}

// The iterator of a helper can be used twice if its source can.
func TestHelpersCanBeIteratedTwice(t *testing.T) {
	for name, helper := range helpers {
		records := helper((&source{records: recorded("subagents")}).all())
		first, _ := chunk.CollectAll(records)
		second, _ := chunk.CollectAll(records)
		if !slices.Equal(seqs(first), seqs(second)) {
			t.Errorf("%s: %v, then %v", name, seqs(first), seqs(second))
		}
	}
}

// TestFilterAgentDropsMalformedRecords: a record whose base members are malformed is dropped; the stream continues.
func TestFilterAgentDropsMalformedRecords(t *testing.T) {
	records := recorded("plain")[:1]
	for _, garbage := range []string{"", "{", `{"agentId"`, `{"agentId":root}`, `{"agentId":7}`, `{"x":{"agentId":"root"}}`, `["agentId","root"]`} {
		records = append(records, chunk.Record{Seq: 7, Data: []byte(garbage)})
	}
	got, err := chunk.CollectAll(chunk.FilterAgent((&source{records: records}).all(), "root", "oo", ""))
	if err != nil || len(got) != 1 {
		t.Errorf("%d records, %v", len(got), err)
	}
}

func TestCollectText(t *testing.T) {
	broken := slices.Concat(recorded("plain")[:4], []chunk.Record{{Type: chunk.TypeTextDelta, Data: []byte(`{}`)}})
	tests := []struct {
		name   string
		source source
		want   string
		err    error
	}{
		{"all agents", source{records: recorded("subagents")[2:]}, "Reading Searching 16 GB of memorythe webLaptop 1 has 16 GB; of the other nothing is known.", nil},
		{"halves of an emoji", source{records: recorded("unknown")}, "Look: a smile 😀 !", nil},
		{"error of the source", source{records: recorded("plain")[:4], err: errSource}, "Light from the sun", errSource},
		{"malformed record", source{records: broken}, "Light from the sun", chunk.ErrInvalid},
		{"nothing", source{}, "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := chunk.CollectText(tt.source.all())
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("CollectText = %q, %v, want %q, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

// As accepts the chunks of its type and no others.
func TestAsAcceptsOnlyItsType(t *testing.T) {
	guards := map[chunk.Type]func(chunk.Chunk) bool{
		chunk.TypeTextDelta: guard[chunk.TextDelta], chunk.TypeThinking: guard[chunk.Thinking],
		chunk.TypeToolArgStreamStart: guard[chunk.ToolArgStreamStart], chunk.TypeToolArgStreamDelta: guard[chunk.ToolArgStreamDelta],
		chunk.TypeToolArgStreamEnd: guard[chunk.ToolArgStreamEnd], chunk.TypeToolStart: guard[chunk.ToolStart],
		chunk.TypeToolEnd: guard[chunk.ToolEnd], chunk.TypeToolApprovalRequest: guard[chunk.ToolApprovalRequest],
		chunk.TypeToolApprovalResponse: guard[chunk.ToolApprovalResponse], chunk.TypeToolInputError: guard[chunk.ToolInputError],
		chunk.TypeToolOutputError: guard[chunk.ToolOutputError], chunk.TypeSubagentStart: guard[chunk.SubagentStart],
		chunk.TypeSubagentEnd: guard[chunk.SubagentEnd], chunk.TypeCustom: guard[chunk.Custom],
		chunk.TypeStatePatch: guard[chunk.StatePatch], chunk.TypeError: guard[chunk.Error], chunk.TypeOutput: guard[chunk.Output],
		chunk.TypeSourceURL: guard[chunk.SourceURL], chunk.TypeSourceDocument: guard[chunk.SourceDocument],
		chunk.TypeStepStart: guard[chunk.StepStart], chunk.TypeStepEnd: guard[chunk.StepEnd], chunk.TypeFile: guard[chunk.File],
		chunk.TypeRunInterrupted: guard[chunk.RunInterrupted], chunk.TypeRunResumed: guard[chunk.RunResumed],
		chunk.TypeRunPaused: guard[chunk.RunPaused], chunk.TypeExecutorSuperseded: guard[chunk.ExecutorSuperseded],
		chunk.TypeCheckpointCreated: guard[chunk.CheckpointCreated], chunk.TypeStepCommitted: guard[chunk.StepCommitted],
		chunk.TypeStepDiscarded: guard[chunk.StepDiscarded], chunk.TypeStreamResync: guard[chunk.StreamResync],
		chunk.TypeSuspensionMarker: guard[chunk.SuspensionMarker],
		"hologram_frame":           guard[chunk.Opaque],
	}
	for _, s := range chunktest.All() {
		for typ, is := range guards {
			if is(s.Chunk) != (s.Chunk.Type() == typ) {
				t.Errorf("%s as %s: %v", s.Name, typ, is(s.Chunk))
			}
		}
	}
	catalogued := slices.DeleteFunc(chunktest.Types(), chunk.Type.Control)
	if len(catalogued) != 31 || len(guards) != 32 {
		t.Errorf("%d types and %d guards, want 31 and one for the unknown", len(catalogued), len(guards))
	}
}

func guard[T chunk.Body](c chunk.Chunk) bool {
	_, ok := chunk.As[T](c)
	return ok
}
