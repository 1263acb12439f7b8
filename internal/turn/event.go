package turn

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/structured"
)

// Printer writes the events of a turn as frames of a dialect.
type Printer interface {
	// Print writes the frames of an event, which is used again for the next one. An event that the dialect does not have is left out.
	Print(f *Frames, e *Event)
}

// DeltaPrinter is a Printer for the pieces of an open text, which are most records.
type DeltaPrinter interface {
	Printer

	// DeltaHead writes the frame of a piece of the open text of the session's agent, up to the piece, without Shut, and returns what follows the piece. The Machine
	// asks once for each text, and again after ForgetHead. The bytes are those that Print writes for BlockDelta. A text of which nothing is written has an empty head and tail.
	DeltaHead(f *Frames, a *Agent) (tail string)
}

// Kind is a kind of Event.
type Kind int

// The kinds. An event has the members that are named here, and Item unless it says otherwise.
const (
	// Begin begins a response. Again: it is another one, for a client that has the records so far; then Item is nil. First: the record opens the turn.
	Begin Kind = iota + 1

	Run   // a run of the session's agent starts or continues; Open: in a response that was open before
	Wait  // the run waits, and the response does not end
	Pause // the run waits for the client, and the response ends. Quiet: it does not, because a later record of the history resumes the turn
	End   // the response ends, for Reason. Item is nil if no record ends it. Quiet as for Pause
	Fail  // the response ends with the error of the record. Quiet as for Pause

	Record // a record that is not a control record, of a known type; its other events follow. First: its step is higher than those before
	Final  // the run has ended with the output Value; End follows

	StepOpen  // a step of Agent begins. Again as for Begin
	StepEnd   // the record ends the step of Agent, if Agent.StepOpen
	StepClose // the open step of Agent ends, because something else ends it

	BlockOpen  // Agent.Block begins. Again as for Begin
	BlockDelta // a piece of it, Text
	BlockClose // it ends. Item may be nil

	InputOpen  // the arguments of Call begin to stream. Again as for Begin
	InputDelta // a piece of them, Text
	InputClose // they have all been streamed; Input follows
	Input      // the arguments of Call are Value; Again: others were written before. Unasked: they are not known, because the outcome came first
	Started    // the record starts Call. Input follows, unless the client has the arguments
	Ask        // a user must decide about Call
	Decision   // a user has decided
	Outcome    // Call has its outcome: Value, or Failure. Denied: a user has denied it
	Late       // an outcome or a decision of a call that has its outcome, or is of an earlier turn. Denied: a user has denied it. Call has its ids only
	CallGone   // the start of Call was removed

	AgentOpen  // Agent starts. Alone: there is no record of its start, and AgentClose follows
	AgentClose // Agent ends, with Value
	AgentRun   // a run of Agent starts. Quiet: the client gets nothing of it
	AgentEnd   // it has ended
	AgentFail  // it has failed
	AgentGone  // the start of Agent was removed

	Part    // a file or a source
	Data    // an event of the application, or structured data, see DataKind
	State   // a change of the custom state
	Output  // the output of the run
	Error   // an error that does not end the response
	Notice  // a record about the run
	Unknown // a record of a type that this build does not know
	Other   // a record of a sub-agent that Rules.Shows leaves out

	// Removed: records were removed, and the state of the machine is that without them. Quiet: the client gets nothing of it. Taken reports which are removed.
	Removed

	AgentRemoved // records of Agent were removed, for a printer that counts what it wrote of it. Taken and Quiet as for Removed
)

// Reason says why a response ends.
type Reason int

// The reasons of End.
const (
	Success     Reason = iota // the turn has ended
	Superseded                // another turn begins
	Interrupted               // the run was interrupted, and may be resumed
	Aborted                   // a user has stopped the run
	Waiting                   // the run waits; only of Finish
	Failed                    // the run has failed; only of Finish
)

// Event is what a record means for the client.
type Event struct {
	Kind Kind
	Turn *Machine

	Item  *Item
	Agent *Agent // of the item, or the session's own, unless the kind says otherwise
	Call  *Call
	Text  []byte // content of a JSON string
	Value chunk.Value

	Failure chunk.Value // the error of an outcome, a JSON string; nil for none
	Code    chunk.Value // its code, nil for none
	Reason  Reason
	Is      DataKind
	Stream  *structured.Stream // of Data with a piece or a value
	Taken   func(chunk.Ordinal) bool

	Again, First, Open, Alone, Unasked, Denied, Quiet bool

	Answered bool // Ask: a later record of the history answers it
}

// DataKind is what an event of the application is for the snapshot.
type DataKind int

// The values of DataKind.
const (
	NoPart       DataKind = iota // structured data that is refused
	DataPart                     // an event of the application
	PiecePart                    // a piece of structured data that is not complete
	ValuePart                    // the complete value of structured data
	InvalidPiece                 // structured data that was not complete, and is invalid
	InvalidPart                  // structured data that was complete, and is invalid
)
