// Package dialects finds the writers and translators of the dialects by name.
package dialects

import (
	"maps"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/codec/agui"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/codec/anthropic"
	"github.com/tailrace/tailrace/codec/kortyx"
	"github.com/tailrace/tailrace/codec/langgraph"
	"github.com/tailrace/tailrace/codec/mastra"
	"github.com/tailrace/tailrace/codec/openai"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/projector/fold"
)

// Turn is what a writer needs to know of a turn besides its records.
type Turn struct {
	Session   chunk.Session
	MessageID string // of the answer in snapshots

	// State is the custom state of the session before the turn, {} if it has none, and nil if it is not known or the client must not get it.
	State chunk.Value

	// HeldResults are calls of which the client has the results as messages of its own. Only AG-UI has such clients.
	HeldResults []string

	// AISDK selects the form of the dialect of the AI SDK. Its ClientTool is for all dialects.
	AISDK aisdk.Options

	// LangGraph selects the events of that dialect. Its MessageID is not used.
	LangGraph langgraph.WriterConfig
}

var writers = map[string]func(Turn) codec.Writer{
	dialect.AGUI: func(t Turn) codec.Writer {
		return agui.New(t.MessageID, agui.Options{State: t.State, ClientTool: t.AISDK.ClientTool, Omit: t.HeldResults})
	},
	dialect.AISDK:  func(t Turn) codec.Writer { return aisdk.New(t.MessageID, t.AISDK) },
	dialect.Kortyx: func(t Turn) codec.Writer { return kortyx.NewWriter(t.State) },
	dialect.Mastra: func(t Turn) codec.Writer { return mastra.NewWriter(t.MessageID) },
	dialect.LangGraph: func(t Turn) codec.Writer {
		t.LangGraph.MessageID = t.MessageID
		return langgraph.NewWriter(t.LangGraph)
	},
}

var headers = map[string]func() map[string]string{
	dialect.AISDK: aisdk.Header,
	dialect.Mastra: func() map[string]string {
		return map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}
	},
}

var translators = map[string]func(codec.Run) codec.Translator{
	dialect.AGUI:   agui.NewTranslator,
	dialect.AISDK:  aisdk.NewTranslator,
	dialect.Kortyx: kortyx.New,
	dialect.Mastra: mastra.New,
	dialect.OpenAI: openai.New,

	dialect.Anthropic: anthropic.New,
	dialect.LangGraph: langgraph.New,
}

// Writes reports whether sessions can be read in a dialect other than the native one.
func Writes(name string) bool { return writers[name] != nil }

// Written returns the names of the dialects in which sessions can be read, the native one first.
func Written() []string {
	return append([]string{dialect.Native}, slices.Sorted(maps.Keys(writers))...)
}

// NewWriter returns a writer of a turn. The dialect must be one that Writes reports.
func NewWriter(name string, t Turn) codec.Writer { return writers[name](t) }

// Header returns the headers of a response in a dialect, in addition to those of every event stream.
func Header(name string) map[string]string {
	if of := headers[name]; of != nil {
		return of()
	}
	return nil
}

// NewTranslator returns a translator for a run, and whether there is one for the dialect. The native dialect needs none.
func NewTranslator(name string, r codec.Run) (_ codec.Translator, ok bool) {
	of := translators[name]
	if of == nil {
		return nil, false
	}
	return of(r), true
}

var snapshots = map[string]func(dst []byte, c fold.Content) []byte{
	dialect.AGUI:   agui.AppendContent,
	dialect.Kortyx: kortyx.AppendContent,
	dialect.LangGraph: func(dst []byte, c fold.Content) []byte {
		return langgraph.AppendState(dst, langgraph.State{Content: c, Thread: c.Session.ID})
	},
	dialect.Mastra: func(dst []byte, c fold.Content) []byte {
		return mastra.AppendSnapshot(dst, aisdk.FrontendSnapshot{
			Messages: aisdk.UIMessages(c.Messages), StreamSequence: c.Position.Seq, Status: c.Status, Session: c.Session, Run: c.Run,
			Timestamp: int64(c.Anchor), Before: c.Before,
		})
	},
}

// HasSnapshot reports whether a dialect has a form of snapshots other than that of the edge, which is the AI SDK's.
func HasSnapshot(name string) bool { return snapshots[name] != nil }

// AppendSnapshot appends the state with which a client of a dialect begins, on one line. HasSnapshot must be true for the dialect.
func AppendSnapshot(name string, dst []byte, c fold.Content) []byte { return snapshots[name](dst, c) }
