package aisdk

import (
	"iter"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/turn"
)

// MessageWriter writes one assistant message. It is not safe for concurrent use.
type MessageWriter struct {
	machine *turn.Machine
	printer *printer
}

// New returns a writer of the message with this id, before the first record of its turn.
func New(messageID string, opt Options) *MessageWriter {
	p := &printer{opt: opt, messageID: messageID, steps: steps{number: 1}}
	rules := turn.Rules{EarlyStart: true, ErrorEnds: true, OneInput: true, CloseAll: true, EmptyParts: true, Shows: p.shows}
	rules.Asks = func(c *turn.Call) bool { return c.Client && c.Sent }
	return &MessageWriter{turn.New(p, rules, turn.Config{IsClient: opt.ClientTool, Earlier: opt.Earlier}), p}
}

// Append appends the frames of rec, the next record of the session or of its tree. Some records have no frame. The last frame of rec has its cursor as
// id; start and [DONE] have none.
//
// A malformed record has no frame, as in the snapshot.
func (m *MessageWriter) Append(dst []byte, rec chunk.Record) []byte {
	return m.machine.Append(dst, rec)
}

// Hide is Append for a record whose content the client must not get. It writes at most the end of the text that the record ends: otherwise a text before the
// record and one after it would be one part, and the snapshot has two. Hide accepts no control records of the message's own session: they determine the course of
// the message.
func (m *MessageWriter) Hide(dst []byte, rec chunk.Record) []byte { return m.machine.Hide(dst, rec) }

// Advance is Append for a client that has the frames of rec already.
func (m *MessageWriter) Advance(rec chunk.Record) {
	m.printer.started = true
	m.machine.Skip(rec)
}

// Continue begins the response to a continuation POST: start with the same id, and then only new frames. Call Advance for the records that the client has
// before.
func (m *MessageWriter) Continue() {
	m.printer.started = false
	m.machine.Continue()
}

// Resume is Continue and Start, and begins what is open again: texts, and inputs that stream. The client may be another one than before, and one that has the
// message of the snapshot accepts no piece without a start. It shows the rest of a text as another part.
func (m *MessageWriter) Resume(dst []byte) []byte { return m.machine.Resume(dst) }

// Done reports whether the response is over: its last frames, including [DONE], were appended. Another response may continue the message.
func (m *MessageWriter) Done() bool { return m.machine.Done() }

// Start appends the start frame unless it was written. A server uses it to respond before the first record arrives.
func (m *MessageWriter) Start(dst []byte) []byte { return m.machine.Start(dst) }

// Finish appends the frames that end the response, unless it is over. It is for a continuation without new records, and for a log that has ended.
func (m *MessageWriter) Finish(dst []byte) []byte { return m.machine.Finish(dst) }

// BeginReplay begins the replay of stored records, the next ones of the message.
func (m *MessageWriter) BeginReplay() *Replay { return &Replay{m.machine.BeginReplay()} }

// Replay writes frames of stored records. They build the same message as Append of each record, with fewer frames: consecutive deltas of one part are merged, and
// removed records, notices about the state of the run, answered requests for approval (a client of version 6 would ask again) and the ends of earlier responses are
// left out. A Replay keeps no bytes of a record.
type Replay struct{ replay *turn.Replay }

// FindRemoved reads the next one of the stored records, and finds which ones it removes. It gets all of them before Write.
func (r *Replay) FindRemoved(rec chunk.Record) { r.replay.FindRemoved(rec) }

// Write appends the frames of the records, which are ranged over twice, so that they need not be in memory. A record that comes with false is one whose content the
// client must not get, see MessageWriter.Hide. The frames that can be sent, because the next record does not extend the last one of them, are passed to flush, which
// returns the buffer for the next ones; nil keeps them. Continue with MessageWriter.Append.
func (r *Replay) Write(dst []byte, records iter.Seq2[chunk.Record, bool], flush func(dst []byte) []byte) []byte {
	return r.replay.Write(dst, records, flush)
}

// printer writes the events of a turn.
type printer struct {
	opt       Options
	messageID string
	started   bool   // start was written
	reason    string // finish reason of the last step that gave one
	steps     steps
	valueAt   chunk.Ordinal // latest record of structured data
}

// Print implements turn.Printer.
func (p *printer) Print(f *turn.Frames, e *turn.Event) {
	switch e.Kind {
	case turn.Begin:
		p.started = p.started && !e.Again
		p.start(f)
	case turn.Run:
		p.finishStep(f, e)
		p.steps.begun, p.reason = false, ""
	case turn.Wait:
		p.finishStep(f, e)
	case turn.Pause, turn.End, turn.Fail:
		p.end(f, e)
	case turn.StepOpen:
		p.stepStart(f, e)
	case turn.StepEnd:
		p.stepEnd(f, e)
	case turn.BlockOpen:
		if !e.Again {
			p.beginPart(f, e)
		}
		block(f, e.Agent, "start")
		f.Shut()
	case turn.BlockDelta:
		p.piece(f, e)
	case turn.BlockClose:
		block(f, e.Agent, "end")
		f.Shut()
	case turn.InputOpen, turn.InputDelta, turn.Started, turn.Input, turn.Ask, turn.Decision, turn.Outcome:
		p.call(f, e)
	case turn.Removed:
		p.removed(f, e)
	default:
		p.content(f, e)
	}
}

// DeltaHead implements turn.DeltaPrinter.
func (p *printer) DeltaHead(f *turn.Frames, a *turn.Agent) (tail string) {
	block(f, a, "delta")
	f.Name("delta")
	f.Dst = append(f.Dst, '"')
	return "\"}\n\n"
}

// shows reports whether a record of a sub-agent is written like one of the message's own agent. Others may be written as notices.
func (p *printer) shows(it *turn.Item) bool {
	shown := false
	switch it.Rec.Type {
	case chunk.TypeCustom, chunk.TypeSubagentStart, chunk.TypeSubagentEnd, chunk.TypeError,
		chunk.TypeSuspensionMarker, chunk.TypeRunInterrupted, chunk.TypeRunPaused, chunk.TypeRunResumed, chunk.TypeCheckpointCreated,
		chunk.TypeStepCommitted, chunk.TypeStepDiscarded, chunk.TypeStreamResync, chunk.TypeExecutorSuperseded:
		return true
	case chunk.TypeToolApprovalResponse:
		return it.HasCall()
	case chunk.TypeToolApprovalRequest:
		shown = !it.Is("isAutomatic")
	case chunk.TypeToolStart:
		shown = it.RunsInClient()
	case chunk.TypeToolEnd, chunk.TypeToolOutputError:
		shown = it.HasCall()
	}
	return shown || p.opt.SubAgents == Inline
}
