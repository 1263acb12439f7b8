package langgraph

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/turn"
)

// WriterConfig configures NewWriter.
type WriterConfig struct {
	MessageID string // of the answer in snapshots

	// Channels, Namespaces and Depth select the events that a client subscribes to. Without them, all are written.
	Channels   []string   // "custom:<name>" is one event of the application
	Namespaces [][]string // the first segments of namespaces; a segment without a colon is that of any call
	Depth      *int       // number of segments that may follow

	// HasState makes the Writer write events of the channel values for the root graph, with StateMark in the place of their data: the caller replaces it by
	// the values of AppendState. A record has at most one.
	HasState bool
}

// StateMark is a byte that no other part of a frame has.
const StateMark = 0

// selects reports whether an event is selected. custom is the name of an event of the application.
func (f *WriterConfig) selects(channel, custom string, namespace []string) bool {
	if f.Channels != nil && !slices.Contains(f.Channels, channel) && (channel != "custom" || !slices.Contains(f.Channels, "custom:"+custom)) {
		return false
	}
	return f.Namespaces == nil || slices.ContainsFunc(f.Namespaces, func(prefix []string) bool {
		return isBelow(namespace, prefix) && (f.Depth == nil || len(namespace)-len(prefix) <= *f.Depth)
	})
}

func isBelow(namespace, prefix []string) bool {
	if len(namespace) < len(prefix) {
		return false
	}
	for i, want := range prefix {
		if name, _, _ := strings.Cut(namespace[i], ":"); namespace[i] != want && name != want {
			return false
		}
	}
	return true
}

// writer is a Machine that appends nothing in Resume: clients continue with the next event.
type writer struct{ *turn.Machine }

// Resume implements codec.Writer.
func (writer) Resume(dst []byte) []byte { return dst }

// NewWriter returns a Writer for the turn whose first record is passed to it first. It writes protocol events of LangGraph, for the clients of LangChain's Agent
// Streaming Protocol.
//
// Each has an event_id that is a function of the log: the cursor of the record, and the number of the event among those of the record, also if some of them are
// not selected. That of a lifecycle of the root graph begins with synth: and the run, because clients take the run from there. Resume appends nothing.
func NewWriter(cfg WriterConfig) codec.Writer {
	return writer{turn.New(&printer{cfg: cfg}, turn.Rules{EndAgain: true}, turn.Config{})}
}

// printer writes the events of a turn.
type printer struct {
	cfg     WriterConfig
	at      chunk.Cursor // of the latest record with an event
	time    time.Time    // of that
	n       int          // its events so far
	patched bool         // the custom state has changed since the latest values
	runID   []byte       // in the events of the root graph: the run that was started or resumed last, and not one that continues without the client
}

// removedEvent is the number of the event about removed records: that of a client that has them, and of one that has not.
const removedEvent = 1000

// Print implements turn.Printer.
func (p *printer) Print(f *turn.Frames, e *turn.Event) {
	if e.Again {
		return // clients keep what they have
	}
	if e.Item != nil && e.Item.Rec.Cursor() != p.at {
		p.at, p.time, p.n = e.Item.Rec.Cursor(), e.Item.Rec.StoredAt, 0
	}
	switch e.Kind {
	case turn.Run:
		p.run(f, e)
	case turn.Pause:
		p.pause(f, e)
	case turn.End, turn.Fail:
		p.end(f, e)
	case turn.StepEnd:
		p.finish(f, e.Agent, e.Item.Get("usage"))
		if p.patched && e.Agent.Own() {
			p.values(f)
		}
	case turn.StepClose, turn.Removed, turn.AgentRemoved:
		p.finish(f, e.Agent, nil)
		if e.Kind == turn.Removed && !e.Quiet {
			p.n = removedEvent - 1 // a client that has removed records gets the ends of their messages before it
			p.notice(f, e)
			p.values(f)
			p.restart(f)
		}
	case turn.BlockOpen, turn.BlockDelta, turn.BlockClose, turn.Part:
		p.content(f, e)
	case turn.AgentOpen, turn.AgentClose, turn.AgentGone:
		p.agent(f, e)
	case turn.State:
		p.patched = p.patched || e.Agent.Own()
	case turn.Data:
		p.custom(f, e, e.Item.Text("eventName"), func(o *rawjson.Object) { o.Raw("payload", e.Item.OrNull("data")) })
	case turn.Output, turn.Error, turn.Notice:
		p.notice(f, e)
	default:
		p.call(f, e)
	}
}

// event writes an event of a namespace.
func (p *printer) event(f *turn.Frames, method string, namespace []string, data func(o *rawjson.Object)) {
	p.write(f, method, "", nil, namespace, data)
}

// write writes an event unless the filter leaves it out. run is the content of a JSON string, nil for none. data writes the members of its data; nil: StateMark is in
// their place.
func (p *printer) write(f *turn.Frames, method, custom string, run []byte, namespace []string, data func(o *rawjson.Object)) {
	p.n++
	channel, _, _ := strings.Cut(method, ".")
	if !p.cfg.selects(channel, custom, namespace) {
		return
	}
	f.Open("event")
	f.Name("event_id")
	f.Dst = append(f.Dst, '"')
	if run != nil {
		f.Dst = append(append(append(f.Dst, "synth:"...), run...), ':')
	}
	f.Dst = append(strconv.AppendInt(append(p.at.Append(f.Dst), '.'), int64(p.n), 10), '"')
	f.Number("seq", int64(p.at.Seq))
	f.String("method", method)
	f.Nest("params")
	rawjson.AddList(&f.Object, "namespace", namespace, func(segment string, dst []byte) []byte { return rawjson.AppendQuoted(dst, segment) })
	at := int64(0)
	if !p.time.IsZero() {
		at = p.time.UnixMilli()
	}
	f.Number("timestamp", at)
	if data == nil {
		f.Raw("data", []byte{StateMark})
	} else {
		f.Nest("data")
		data(&f.Object)
		f.Close()
	}
	f.Close()
	f.Shut()
}

// lifecycle writes the state of the root graph.
func (p *printer) lifecycle(f *turn.Frames, event string, failure chunk.Value) {
	p.write(f, "lifecycle", "", p.runID, nil, func(o *rawjson.Object) {
		o.String("event", event)
		o.Raw("error", failure)
	})
}

// restart writes the start of the run again, after the state without the messages that were removed: at it, a page drops what it got and the state does not have.
func (p *printer) restart(f *turn.Frames) {
	if p.cfg.HasState && p.cfg.selects("values", "", nil) {
		p.lifecycle(f, "running", nil)
	}
}

// values writes a checkpoint and the state of the session at it. The number of its step grows, so that clients know an older state.
func (p *printer) values(f *turn.Frames) {
	p.patched = false
	if !p.cfg.HasState {
		return
	}
	p.event(f, "checkpoints", nil, func(o *rawjson.Object) {
		o.String("id", checkpointID(p.at.Seq))
		o.Number("step", int64(p.at.Seq))
		o.String("source", "loop")
	})
	p.write(f, "values", "", nil, nil, nil)
}

// checkpointID returns the id of the state at a record. Ids have the order of the records.
func checkpointID(at chunk.Seq) string { return fmt.Sprintf("%016d", uint64(at)) }

func (p *printer) custom(f *turn.Frames, e *turn.Event, name string, payload func(o *rawjson.Object)) {
	p.write(f, "custom", name, nil, pathOf(e.Agent), func(o *rawjson.Object) {
		o.String("name", name)
		payload(o)
	})
}

// notice writes a record that the protocol has no event for.
func (p *printer) notice(f *turn.Frames, e *turn.Event) {
	if !e.Item.IsNotice() {
		return
	}
	p.custom(f, e, string(e.Item.Rec.Type), func(o *rawjson.Object) {
		o.Nest("payload")
		e.Item.WriteNotice(o)
		o.Close()
	})
}
