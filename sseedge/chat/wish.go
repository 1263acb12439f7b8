package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/projector/fold"
)

// wish is what a request asks an agent to answer.
type wish struct {
	state   wishState
	problem *Problem         // of impossible
	command commands.Command // of newTurn: run, input and what it replaces
	isLast  bool             // of repeated: the present turn is the one
	run     string           // of repeated: the run that was asked for, if its id is known
	message string           // of repeated: the id of the message that was sent
}

type wishState int

const (
	nothing    wishState = iota
	newTurn              // a message that nobody has answered yet, or an answer anew
	repeated             // it was asked for before
	impossible           // there is no such message
)

// isOf reports whether a command is the one that was asked for.
func (w wish) isOf(c *commands.Command) bool {
	return c.RunID == w.run && w.run != "" || w.message != "" && lastInput(c) == w.message
}

// lastInput is the id that the client gave the last message of a command.
func lastInput(c *commands.Command) string {
	if n := len(c.Input); n > 0 && c.Input[n-1].ClientMessageID != nil {
		return *c.Input[n-1].ClientMessageID
	}
	return ""
}

// wants finds out what a request asks for, and whether that was asked before.
func (r Request) wants(v *View) wish {
	switch {
	case !r.Post:
		return wish{}
	case r.Asked != "":
		return wish{state: repeated, run: r.Asked, isLast: v.TurnRun.ID == r.Asked || v.Run.ID == r.Asked}
	case r.Trigger == Regenerate && len(r.Turn) == 0:
		return r.wantsAnew(v, v.turnBefore(r.MessageID))
	case len(r.Turn) == 0:
		return wish{}
	}
	last := r.Turn[len(r.Turn)-1]
	switch known := v.input(last.ID); {
	case known == nil: // also to answer anew what never arrived
		return r.wantsFresh(v)
	case r.Trigger == Regenerate:
		return r.wantsAnew(v, v.known(r.Turn))
	case r.MessageID == last.ID:
		return r.wantsEdit(v, last, known)
	}
	return wish{state: repeated, message: last.ID, isLast: v.isLastInput(last.ID)}
}

// wantsFresh is for a message that the log does not have. Those before it that the
// log does have, because their answer never came or failed, are not sent again.
func (r Request) wantsFresh(v *View) wish {
	first := len(r.Turn)
	for first > 0 && v.input(r.Turn[first-1].ID) == nil {
		first--
	}
	last := r.Turn[len(r.Turn)-1]
	key := last.ID
	if key == "" {
		key = "nonce " + r.Nonce
	}
	w := wish{state: newTurn, run: commands.ExecuteRunID(v.Session, key), message: last.ID}
	if c := v.waiting(); c != nil && w.isOf(c) || v.hasRun(w.run) {
		w.state, w.isLast = repeated, v.TurnRun.ID == w.run
		return w
	}
	w.command = commands.Command{RunID: w.run, Input: inputsOf(r.Turn[first:])}
	return w
}

// wantsEdit is for a message that takes the place of the one with its id, and of
// everything behind that. That it was sent before cannot be told from the id: it
// was sent before if the present turn begins with it and stands in such a place.
func (r Request) wantsEdit(v *View, last Input, known *fold.Input) wish {
	digest := digestOf(last.Message)
	if c := v.waiting(); c != nil && c.Replaces != "" && lastInput(c) == last.ID && digestOf(c.Input[len(c.Input)-1]) == digest {
		return wish{state: repeated, run: c.RunID, message: last.ID}
	}
	if v.isLastInput(last.ID) && digestOf(known.Message) == digest && v.hasTwin(last.ID) {
		return wish{state: repeated, message: last.ID, isLast: true}
	}
	if known.Replaced {
		return wish{state: impossible, problem: goneOn}
	}
	run := commands.RegenerateRunID(v.Session, "edit "+last.ID+" "+digest, v.TurnRun.ID)
	return wish{state: newTurn, command: replacing(run, known.Index, []Input{last})}
}

// wantsAnew is for another answer to messages that the log has.
func (r Request) wantsAnew(v *View, turn []fold.Input) wish {
	if len(turn) == 0 {
		return wish{state: impossible, problem: noMessage}
	}
	first, last := turn[0], turn[len(turn)-1]
	id := idOf(last)
	if c := v.waiting(); c != nil && c.Replaces != "" && lastInput(c) == id {
		return wish{state: repeated, run: c.RunID, message: id}
	}
	// The client's own id of the message is the same in both turns. While the new
	// answer is on its way, asking for it is asking for that one.
	n, named := fold.MessageIndex(r.MessageID)
	again := named && v.isReplaced(n)
	if v.isLastInput(id) && (again || v.flight() && v.hasTwin(id)) {
		return wish{state: repeated, message: id, isLast: true}
	}
	if last.Replaced {
		return wish{state: impossible, problem: goneOn}
	}
	inputs := make([]Input, len(turn))
	for i, in := range turn {
		inputs[i] = Input{ID: idOf(in), Message: in.Message}
		if i >= len(turn)-len(r.Turn) { // as the client has it now
			sent := r.Turn[len(r.Turn)-len(turn)+i]
			inputs[i].Message = sent.Message
		}
		inputs[i].Message.ClientMessageID = &inputs[i].ID
	}
	run := commands.RegenerateRunID(v.Session, fold.MessageID(first.Index), v.TurnRun.ID)
	return wish{state: newTurn, command: replacing(run, first.Index, inputs)}
}

// replacing is the command of a turn that takes the place of what stands from an
// index on. The place is said twice: to the worker, and in the input, which it
// writes into the log.
func replacing(run string, index int, inputs []Input) commands.Command {
	c := commands.Command{RunID: run, Replaces: fold.MessageID(index), Input: inputsOf(inputs)}
	c.Input[0].Extra = append(slices.Clip(c.Input[0].Extra), chunk.Member{Name: fold.Replaces, Value: chunk.Value(`"` + c.Replaces + `"`)})
	return c
}

func inputsOf(turn []Input) []chunk.InputMessage {
	out := make([]chunk.InputMessage, len(turn))
	for i, in := range turn {
		out[i] = in.Message
	}
	return out
}

// input is the message that a client calls by an id: its own, or the one that a
// snapshot gave it. Of several, as after an edit, it is the last one that still
// has its place. nil: there is none.
func (v *View) input(id string) *fold.Input {
	if id == "" {
		return nil
	}
	var found *fold.Input
	for i := range v.Inputs {
		in := &v.Inputs[i]
		if isCalled(in, id) && (found == nil || found.Replaced || !in.Replaced) {
			found = in
		}
	}
	return found
}

func isCalled(in *fold.Input, id string) bool {
	return in.ClientID == id || fold.MessageID(in.Index) == id
}

// idOf is what a client calls a message.
func idOf(in fold.Input) string {
	if in.ClientID != "" {
		return in.ClientID
	}
	return fold.MessageID(in.Index)
}

// known are the messages at the end of a turn that stand together in the log.
func (v *View) known(turn []Input) []fold.Input {
	var out []fold.Input
	for _, in := range slices.Backward(turn) {
		known := v.input(in.ID)
		if known == nil || len(out) > 0 && (known.Index != out[0].Index-1 || known.Replaced != out[0].Replaced) {
			break
		}
		out = append([]fold.Input{*known}, out...)
	}
	return out
}

// turnBefore are the messages that an answer was given to.
func (v *View) turnBefore(answer string) []fold.Input {
	index, ok := fold.MessageIndex(answer)
	if !ok {
		return nil
	}
	var out []fold.Input
	for _, in := range slices.Backward(v.Inputs) {
		if in.Index == index-1 {
			out = append([]fold.Input{in}, out...)
			index--
		}
	}
	return out
}

// isLastInput reports whether a message is the last one of the present turn.
func (v *View) isLastInput(id string) bool {
	in := v.input(id)
	answer, ok := fold.MessageIndex(v.Answer)
	return in != nil && ok && v.TurnStart.Seq > 0 && in.Index == answer-1
}

// hasTwin reports whether a message has taken the place of one with the same id.
func (v *View) hasTwin(id string) bool {
	return slices.ContainsFunc(v.Inputs, func(in fold.Input) bool { return in.Replaced && isCalled(&in, id) })
}

func (v *View) hasRun(id string) bool {
	return v.Run.ID == id || v.TurnRun.ID == id || slices.ContainsFunc(v.Past, func(r fold.Run) bool { return r.ID == id })
}

// digestOf tells what a message says, whatever it is called.
func digestOf(m chunk.InputMessage) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q", m.Content)
	for _, f := range m.Files {
		fmt.Fprintf(h, " %q %q", f.URL, f.MediaType)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
