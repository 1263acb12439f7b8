package kortyx

import (
	"maps"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/oldturn/aisdk"
	"github.com/tailrace/tailrace/internal/testkit/oldturn/dialect"
)

// otherTurn ends the response because another turn begins: the frames have no cursor, so that the client gets the run_started in its next response.
func (w *Writer) otherTurn() {
	if !w.ended {
		w.frames.Begin(w.frames.Dst, chunk.Cursor{})
		w.start()
		w.end()
	}
	w.over = true
}

// isResumedBy reports whether the record resumes a turn that waits or was stopped. A turn may wait for users because a sub-agent asked them.
func (w *Writer) isResumedBy(it *item) bool {
	started := it.rec.Type == chunk.TypeRunStarted
	resumes := started && w.outcome != running
	switch {
	case it.child:
		return started && w.outcome == paused
	case it.rec.Type == chunk.TypeStreamActive:
		resumes = w.outcome == paused
	case it.rec.Type == chunk.TypeRunResumed:
		resumes = w.outcome == interrupted
	}
	if resumes {
		w.outcome = running
	}
	return resumes
}

// control handles a record about the stream.
func (w *Writer) control(it *item) {
	if it.child {
		w.childControl(it)
		return
	}
	switch it.rec.Type {
	case chunk.TypeRunStarted:
		w.closeBlock()
		w.runID = append(w.runID[:0], it.content("runId")...)
	case chunk.TypeStreamPaused:
		w.streamPaused()
	case chunk.TypeStreamEnd:
		w.outcome = finished
		w.end()
	case chunk.TypeStreamFailed:
		w.outcome = failed
		if it.Text("errorDetail", "code") == aisdk.CodeAborted {
			w.outcome = interrupted // by a user: not an error
			w.end()
			return
		}
		w.fail(it)
	case chunk.TypeTruncated:
		w.truncated(it)
	}
}

// fail ends the response with the error of a record.
func (w *Writer) fail(it *item) {
	w.closeBlock()
	w.frames.Open("error")
	w.frames.Raw("message", it.Get("error"))
	w.frames.Shut()
	w.end()
}

// streamPaused ends the response if the turn waits for users: a client answers in a new request. A turn that waits for sub-agents only is resumed without the
// client.
func (w *Writer) streamPaused() {
	if w.outcome != running {
		return
	}
	w.outcome = paused
	w.closeBlock()
	if w.asks() || !w.delegates() {
		w.end()
	}
}

// asks reports whether a call waits for the user.
func (w *Writer) asks() bool {
	for key, c := range w.calls {
		if c.asked || key.agent == "" && !c.delegated {
			return true
		}
	}
	return false
}

// delegates reports whether a sub-agent is running.
func (w *Writer) delegates() bool {
	for _, c := range w.calls {
		if c.delegated {
			return true
		}
	}
	return len(w.children) > 0
}

// childControl handles a record about the stream of a sub-agent. A sub-agent that waits for users, while the turn waits for it, ends the response.
func (w *Writer) childControl(it *item) {
	switch it.rec.Type {
	case chunk.TypeStreamEnd, chunk.TypeStreamFailed:
		maps.DeleteFunc(w.calls, func(key callKey, _ call) bool { return key.agent == it.rec.Session.ID })
		it.agent.pieces = dialect.DeltaReader{}
	case chunk.TypeStreamPaused:
		if w.outcome == paused && w.asks() {
			w.end()
		}
	}
}

// truncated handles the removal of records. A client keeps what they wrote; the stream_resync that follows tells it. Other processes may not have them,
// so from here on nothing depends on them: the ids of streams change, see stream.
func (w *Writer) truncated(it *item) {
	w.closeBlock()
	w.data.rewind(it.rec.Seq)
	b, ok := chunk.BodyOf[chunk.Truncated](it.rec)
	if !ok {
		return
	}
	maps.DeleteFunc(w.calls, func(key callKey, c call) bool { return key.agent == "" && b.Removes(c.at) })
	w.state.restore(b.Removes)
	removed := func(_ string, at chunk.Ordinal) bool { return b.Removes(at) }
	maps.DeleteFunc(w.denied, removed)
	maps.DeleteFunc(w.children, removed)
}

// delegation notes the start and the end of a sub-agent.
func (w *Writer) delegation(it *item) {
	switch it.rec.Type {
	case chunk.TypeSubagentStart:
		if w.children == nil {
			w.children = make(map[string]chunk.Ordinal)
		}
		w.children[it.Text("subSessionId")] = it.rec.Ordinal
	case chunk.TypeSubagentEnd:
		delete(w.children, it.Text("subSessionId"))
	}
}

// begins adds a call to those without an outcome.
func (w *Writer) begins(it *item, asked bool) {
	key := it.key()
	c, known := w.calls[key]
	if !known {
		c = call{at: it.rec.Ordinal, delegated: strings.HasPrefix(it.Text("toolName"), dialect.SubAgentTool)}
	}
	c.asked = c.asked || asked
	if w.calls == nil {
		w.calls = make(map[callKey]call)
	}
	w.calls[key] = c
}

func appendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }
