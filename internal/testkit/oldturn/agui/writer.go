package agui

import (
	"strconv"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/structured"
	"github.com/tailrace/tailrace/internal/testkit/oldturn/dialect"
)

// Writer writes one turn of a session as AG-UI events. It implements dialect.Writer. It is not safe for concurrent use.
type Writer struct {
	out     dialect.Frames
	rec     chunk.Record  // the one at hand
	at      chunk.Cursor  // of the events at hand, zero for none
	members chunk.Members // of it

	message string // id of the answer
	id      []byte // the same, as the content of a JSON string
	opt     Options

	session chunk.Session
	thread  []byte // its id, as the content of a JSON string
	begun   bool   // the first record was handled: session is that of the turn
	turn    bool   // a record of that session was handled
	over    bool   // another turn began: no later record belongs to this one
	ended   bool   // the response is over: RUN_FINISHED or RUN_ERROR was written
	again   bool   // another response began after that
	open    bool   // RUN_STARTED was written, and no end after it
	outcome outcome

	run     []byte // id of the latest run, as the content of a JSON string
	openRun []byte // id in the latest RUN_STARTED
	usage   usage  // of the steps since it

	own    agentState
	agents map[string]*agentState // sub-agents, by session
	order  []*agentState          // the same, as they came

	calls     map[callKey]*call // calls without an outcome
	openCalls []*call           // the same, as they came
	finished  map[string]finishedCall
	shown     map[string]bool // ids under which the calls without an outcome are shown
	reused    map[callKey]int // number behind the id of the latest call of a key that was used again

	omitted map[string]bool // calls whose results the client has

	streams   *structured.State // structured data, nil for none
	streamAt  chunk.Ordinal     // latest record of it
	before    streamsBefore     // the structured data before the current step
	finalData []byte            // the value that the record at hand completed

	scratch []byte // text that is escaped

	head   []byte // of an event that continues the open text
	headOf messageRef
}

var _ dialect.Writer = (*Writer)(nil)

// outcome is the state of the latest run.
type outcome int

const (
	running outcome = iota
	paused
	interrupted
	finished
	failed
)

// New returns a Writer of the turn whose answer has this id in the snapshot, fold.MessageID(s.TurnMessages()), before the first record of the turn.
func New(messageID string, opt Options) *Writer {
	return &Writer{
		message: messageID, id: escaped(messageID), opt: opt,
		own: agentState{carrier: noCarrier},
	}
}

// Append implements dialect.Writer: it appends the events of rec. The last one has the cursor of rec as id. RUN_STARTED
// has none.
func (w *Writer) Append(dst []byte, rec chunk.Record) []byte {
	if dst, ok := w.more(dst, &rec); ok {
		return dst
	}
	w.begin(dst, rec)
	w.record(&w.rec)
	return w.end()
}

// Hide implements dialect.Writer. The control records of the session itself are not hidden: they determine the course of the turn.
func (w *Writer) Hide(dst []byte, rec chunk.Record) []byte {
	w.begin(dst, rec)
	w.hide(&w.rec)
	return w.end()
}

func (w *Writer) begin(dst []byte, rec chunk.Record) {
	w.rec, w.at = rec, rec.Cursor()
	w.out.Begin(dst, w.at)
}

func (w *Writer) end() []byte {
	w.rec.Data = nil // it is the caller's
	return w.out.End()
}

// Done implements dialect.Writer: it reports whether RUN_FINISHED or RUN_ERROR was appended. A response that continues after it has RUN_STARTED next, which
// the protocol allows.
func (w *Writer) Done() bool { return w.ended }

// Resume implements dialect.Writer: it appends RUN_STARTED with the id of the run, and the beginning of what is open: steps, sub-agents, the message and the
// calls that are written. If no run is open, because the turn waits or has ended, it appends nothing: the next record that starts or ends a run has RUN_STARTED.
//
// Each call of runAgent in the client checks the order of events from the start, so without these events it would reject the rest of the run. The client
// keeps its messages: a TEXT_MESSAGE_START with the id of a message that it has, and a TOOL_CALL_START with the id of such a call, create no other one, and
// the content that follows is appended.
func (w *Writer) Resume(dst []byte) []byte {
	if !w.open {
		w.again = w.ended
		return dst
	}
	w.at = chunk.Cursor{}
	w.out.Begin(dst, w.at)
	w.startRun(w.openRun, nil)
	for _, a := range w.agentStates() {
		if a.stepName != nil {
			w.stepEvent("STEP_STARTED", a)
		}
		w.reopen(a)
	}
	for _, c := range w.openCalls {
		if c.open {
			w.callStart(c)
		}
	}
	return w.out.End()
}

// Omit leaves out the results of calls from now on, by their ids in the messages: the client ran them, sent the results and has them as messages of its own, which
// the client of AG-UI would show a second time. They are the Results of a RunInput. Other clients of the session get them.
func (w *Writer) Omit(callIDs ...string) {
	if w.omitted == nil {
		w.omitted = make(map[string]bool)
	}
	for _, id := range callIDs {
		w.omitted[id] = true
	}
}

// agentStates returns the states of all agents, the session's own first.
func (w *Writer) agentStates() []*agentState { return append([]*agentState{&w.own}, w.order...) }

// messageRef identifies a message: the sequence of the record that opened the step of the answer, and the number of the message in the step.
type messageRef struct {
	first chunk.Seq
	n     int
}

// appendMessageID appends the id of a message: that of the answer, the sequence of the record that opened the step, and the number of the message in it. It
// depends on the log only, and the snapshot has the same. A step that is written again after a crash has other ids: otherwise its text would be appended to
// the text that was removed.
func appendMessageID(dst, answer []byte, ref messageRef) []byte {
	dst = append(dst, answer...)
	dst = append(dst, '-')
	dst = strconv.AppendUint(dst, uint64(ref.first), 10)
	dst = append(dst, '-')
	return strconv.AppendInt(dst, int64(ref.n), 10)
}

// messageID writes the id of a message under a name.
func (w *Writer) messageID(name string, ref messageRef) {
	w.out.Name(name)
	w.out.Dst = append(w.out.Dst, '"')
	w.out.Dst = append(appendMessageID(w.out.Dst, w.id, ref), '"')
}

// tag writes which sub-agent an event is of.
func (w *Writer) tag(a *agentState) {
	if !a.own() {
		w.out.Content("subagentRunId", a.tag)
	}
}
