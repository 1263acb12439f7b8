package conversation

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/values"
	"github.com/tailrace/tailrace/projector/fold"
)

// intent is the classification of a request for a run.
type intent struct {
	state   intentKind
	problem *Refusal        // the reason, of impossible
	command control.Command // of newTurn: run, input and what it replaces
	isLast  bool            // of repeated: it is the current turn
	run     string          // of repeated: the requested run, if its id is known
	message string          // of repeated: the id of the sent message
}

type intentKind int

const (
	nothing       intentKind = iota
	newTurn                  // a message without an answer, or a regeneration
	repeated                 // it was requested before
	intentInvalid            // the message does not exist
)

// isOf reports whether a command is the requested one.
func (w intent) isOf(c *control.Command) bool {
	return c.RunID == w.run && w.run != "" || w.message != "" && lastInput(c) == w.message
}

// lastInput returns the client's id of the last message of a command.
func lastInput(c *control.Command) string {
	if len(c.Input) == 0 {
		return ""
	}
	return clientID(c.Input[len(c.Input)-1])
}

// intentOf classifies a request, and detects whether it is a repetition.
func (r Request) intentOf(state *State) intent {
	switch {
	case !r.Post:
		return intent{}
	case r.RequestedRun != "":
		return intent{state: repeated, run: r.RequestedRun, isLast: state.TurnRun.ID == r.RequestedRun || state.Run.ID == r.RequestedRun}
	case r.Regenerate && len(r.Messages) == 0:
		return r.regenerateIntent(state, state.turnBefore(r.MessageID))
	case len(r.Messages) == 0:
		return intent{}
	}
	last := r.Messages[len(r.Messages)-1]
	id := clientID(last)
	switch known := state.input(id); {
	case known == nil: // also to regenerate the answer to a message that was not received
		return r.newMessageIntent(state)
	case r.Regenerate:
		return r.regenerateIntent(state, state.known(r.Messages))
	case r.MessageID == id && state.hides.Contents:
		// An edit that equals the message is a repetition: the response would tell whether a guess is right.
		return intent{state: intentInvalid, problem: refusal(ReasonChanged)}
	case r.MessageID == id:
		return r.editIntent(state, last, known)
	}
	return intent{state: repeated, message: id, isLast: state.isLastInput(id)}
}

// newMessageIntent classifies a message that the log does not have. Earlier messages of the log without an answer, or with a failed one, are not sent again.
func (r Request) newMessageIntent(state *State) intent {
	first := len(r.Messages) - 1
	last := clientID(r.Messages[first])
	for ; first > 0; first-- {
		if id := clientID(r.Messages[first-1]); state.input(id) != nil || state.isQueued(id) {
			break
		}
	}
	key := cmp.Or(last, "nonce "+r.Nonce)
	w := intent{state: newTurn, run: control.ExecuteRunID(state.Session, key), message: last}
	if c := state.Waiting(); c != nil && w.isOf(c) || state.HasRun(w.run) {
		w.state, w.isLast = repeated, state.TurnRun.ID == w.run
		return w
	}
	w.command = control.Command{RunID: w.run, Input: r.Messages[first:]}
	if r.Branch == "" {
		return w
	}
	follows, ok := state.lastOfTurn(r.Branch)
	if !ok {
		return intent{state: intentInvalid, problem: refusal(ReasonNoMessage)}
	}
	w.command.Input = withMember(w.command.Input, fold.FollowsMember, follows)
	return w
}

// lastOfTurn returns the index of the last message of the turn that has a message of the log.
func (state *State) lastOfTurn(id string) (index int, ok bool) {
	n, ok := fold.MessageIndex(id)
	next := slices.IndexFunc(state.Inputs, func(in fold.Input) bool { return in.Index > n })
	if next < 0 {
		return state.Count - 1, ok && n < state.Count
	}
	return state.Inputs[next].Index - 1, ok
}

// withMember returns the messages of a turn with a member that names a message.
func withMember(inputs []chunk.InputMessage, name string, index int) []chunk.InputMessage {
	inputs = slices.Clone(inputs)
	inputs[0].Extra = append(slices.Clip(inputs[0].Extra), chunk.Member{Name: name, Value: chunk.Value(`"` + fold.MessageID(index) + `"`)})
	return inputs
}

// editIntent classifies a message that replaces the one with its id, and all later ones. The id does not show whether it was sent before: it was if the current
// turn starts with it and replaces a message.
func (r Request) editIntent(state *State, last chunk.InputMessage, known *fold.Input) intent {
	id, digest := clientID(last), digestOf(last)
	if c := state.Waiting(); c != nil && c.Replaces != "" && lastInput(c) == id && digestOf(c.Input[len(c.Input)-1]) == digest {
		return intent{state: repeated, run: c.RunID, message: id}
	}
	if state.isLastInput(id) && digestOf(known.Message) == digest && state.hasReplacement(id) {
		return intent{state: repeated, message: id, isLast: true}
	}
	if known.Replaced && r.Branch == "" {
		return intent{state: intentInvalid, problem: refusal(ReasonChanged)}
	}
	run := control.RegenerateRunID(state.Session, "edit "+id+" "+digest, state.TurnRun.ID)
	return intent{state: newTurn, command: replacing(run, known.Index, []chunk.InputMessage{last})}
}

// regenerateIntent classifies a request for another answer to messages of the log.
func (r Request) regenerateIntent(state *State, turn []fold.Input) intent {
	if len(turn) == 0 {
		return intent{state: intentInvalid, problem: refusal(ReasonNoMessage)}
	}
	first, last := turn[0], turn[len(turn)-1]
	id := idOf(last)
	if c := state.Waiting(); c != nil && c.Replaces != "" && lastInput(c) == id {
		return intent{state: repeated, run: c.RunID, message: id}
	}
	// The client's own id of the message is the same in both turns. While the new answer is in flight, a request for it is a repetition.
	n, named := fold.MessageIndex(r.MessageID)
	again := named && r.Branch == "" && state.replaced != nil && state.replaced(n)
	if state.isLastInput(id) && (again || state.InFlight() && state.hasReplacement(id)) {
		return intent{state: repeated, message: id, isLast: true}
	}
	if last.Replaced && r.Branch == "" {
		return intent{state: intentInvalid, problem: refusal(ReasonChanged)}
	}
	inputs := make([]chunk.InputMessage, len(turn))
	for i, in := range turn {
		inputs[i] = in.Message
		if i >= len(turn)-len(r.Messages) { // as the client has it now
			inputs[i] = state.withHidden(r.Messages[len(r.Messages)-len(turn)+i], in.Message)
		}
		inputs[i].ClientMessageID = new(idOf(in))
	}
	run := control.RegenerateRunID(state.Session, fold.MessageID(first.Index), state.TurnRun.ID)
	return intent{state: newTurn, command: replacing(run, first.Index, inputs)}
}

// withHidden returns a message as the client has it, with the members that are hidden from the client as the log has them: a client that has loaded a page sends
// it without them.
func (state *State) withHidden(sent, stored chunk.InputMessage) chunk.InputMessage {
	if state.hides.Contents {
		sent.Content, sent.Files, sent.Data = stored.Content, stored.Files, stored.Data
	}
	if state.hides.Metadata && sent.Metadata == nil {
		sent.Metadata = stored.Metadata
	}
	return sent
}

// replacing returns the command of a turn that replaces the messages from an index on. The index is sent twice: to the worker, and in the input, which it
// writes into the log.
func replacing(run string, index int, inputs []chunk.InputMessage) control.Command {
	return control.Command{RunID: run, Replaces: fold.MessageID(index), Input: withMember(inputs, fold.ReplacesMember, index)}
}

// input returns the message with an id: the client's own, or that of a snapshot. Of several, as after an edit, it is the last one that was not replaced. It
// returns nil if there is none.
func (state *State) input(id string) *fold.Input {
	if id == "" {
		return nil
	}
	var found *fold.Input
	for i := range state.Inputs {
		in := &state.Inputs[i]
		if isCalled(in, id) && (found == nil || found.Replaced || !in.Replaced) {
			found = in
		}
	}
	return found
}

func isCalled(in *fold.Input, id string) bool {
	return in.ClientID == id || fold.MessageID(in.Index) == id
}

// idOf returns the client's id of a message.
func idOf(in fold.Input) string {
	if in.ClientID != "" {
		return in.ClientID
	}
	return fold.MessageID(in.Index)
}

// known returns the messages at the end of a turn that are adjacent in the log.
func (state *State) known(turn []chunk.InputMessage) []fold.Input {
	var out []fold.Input
	for _, in := range slices.Backward(turn) {
		known := state.input(clientID(in))
		if known == nil || len(out) > 0 && (known.Index != out[0].Index-1 || known.Replaced != out[0].Replaced) {
			break
		}
		out = append([]fold.Input{*known}, out...)
	}
	return out
}

// turnBefore returns the messages that an answer belongs to.
func (state *State) turnBefore(answer string) []fold.Input {
	index, ok := fold.MessageIndex(answer)
	if !ok {
		return nil
	}
	var out []fold.Input
	for _, in := range slices.Backward(state.Inputs) {
		if in.Index == index-1 {
			out = append([]fold.Input{in}, out...)
			index--
		}
	}
	return out
}

// isLastInput reports whether a message is the last one of the current turn.
func (state *State) isLastInput(id string) bool {
	in := state.input(id)
	answer, ok := fold.MessageIndex(state.Answer)
	return in != nil && ok && state.TurnStart.Seq > 0 && in.Index == answer-1
}

// hasReplacement reports whether a message has taken the place of one with the same id.
func (state *State) hasReplacement(id string) bool {
	return slices.ContainsFunc(state.Inputs, func(in fold.Input) bool { return in.Replaced && isCalled(&in, id) })
}

// HasRun reports whether the log has a run with an id.
func (state *State) HasRun(id string) bool {
	return state.Run.ID == id || state.TurnRun.ID == id || slices.ContainsFunc(state.Past, func(r fold.Run) bool { return r.ID == id })
}

// digestOf returns a hash of the content of a message, without its id.
func digestOf(m chunk.InputMessage) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q", m.Content)
	for _, f := range m.Files {
		fmt.Fprintf(h, " %q %q", values.Identity(f.URL), f.MediaType)
	}
	for _, d := range m.Data {
		fmt.Fprintf(h, " %q %s", d.Name, d.Data)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
