package script

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// Env is what a script may know of the run it is played in.
type Env struct {
	Session chunk.Session // the session that the run is in
	RunID   string
	Issued  time.Time // when the run was asked for; part of checkpoint ids
}

// Agent is one agent with all that it will do in one run.
type Agent struct {
	Env

	Type   string // agentType of its chunks
	Steps  []Step // step n of the protocol is Steps[n-1]
	Output chunk.Value
}

// Step is what one step of the agent's loop does. A step is played whole or not
// at all: a takeover begins at a step.
type Step struct {
	Acts         []Act
	FinishReason string
	Usage        chunk.Usage
}

// Act is one thing that an agent does, after a pause. Exactly one of the others
// is set.
type Act struct {
	After    time.Duration
	Say      chunk.Body // one chunk
	Ask      []Call     // sub-agents, all at the same time; the act ends with the last of them
	Pause    string     // the stream is paused, for this reason
	Activate bool       // the stream is active again
}

// Call is a call of a sub-agent. Its tool_start was said before; subagent_start,
// subagent_end and tool_end are for the player, around the sub-agent's run.
type Call struct {
	ID    string // tool call id
	Agent Agent
}

// ToolName is the name of the tool that a sub-agent is, for its parent.
func (c Call) ToolName() string { return "subagent__" + c.Agent.Type }

// CheckpointID names the checkpoint after the given step. It depends on nothing
// but the run and the step, so that a step that is played again after a crash
// makes the same checkpoint.
func (e Env) CheckpointID(step int) string {
	return fmt.Sprintf("cpv1-%s-s%d-t%d-%s", e.Session.ID, step, e.Issued.UnixMilli(), e.digest("checkpoint", strconv.Itoa(step))[:6])
}

// StepID names a step of the run.
func (e Env) StepID(step int) string { return fmt.Sprintf("%s-s%d", e.RunID, step) }

// child is the Env of a sub-agent that is called from e. Its session id cannot
// be guessed from the outside (the run id is random) and is the same again when
// the step is played again, which then finds what the sub-agent did already.
func (e Env) child(callID string) Env {
	return Env{
		Session: e.Session.Child("sub-" + e.digest("session", callID)[:32]),
		RunID:   e.RunID + "-" + e.digest("run", callID)[:8],
		Issued:  e.Issued,
	}
}

func (e Env) digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{e.Session.String(), e.RunID}, parts...), "\x00")))
	return hex.EncodeToString(sum[:])
}

// Text is all text that the agent will have said when it is done, without its
// sub-agents.
func (a Agent) Text() string {
	text := ""
	for _, step := range a.Steps {
		for _, act := range step.Acts {
			if delta, ok := act.Say.(chunk.TextDelta); ok {
				text = chunk.Concat(text, delta.Delta)
			}
		}
	}
	return text
}

// Each calls visit for a and for every sub-agent below it.
func (a Agent) Each(visit func(Agent)) {
	visit(a)
	for _, step := range a.Steps {
		for _, act := range step.Acts {
			for _, call := range act.Ask {
				call.Agent.Each(visit)
			}
		}
	}
}
