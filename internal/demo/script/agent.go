package script

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// RunInfo identifies the turn that a script is played in.
type RunInfo struct {
	Session chunk.Session
	Turn    string // stable over the runs of the turn; scripts are a function of Session and Turn
	RunID   string // of the current run; only in records that name their run
}

// Agent is the script of one agent for one turn.
type Agent struct {
	RunInfo

	Type   string // agent type
	Steps  []Step
	Output chunk.Value
}

// Step is the output of one step.
type Step struct {
	Discarded    []Action // written by a first attempt that fails; empty if there is none
	Acts         []Action
	FinishReason string
	Usage        chunk.Usage
}

// Action is a chunk, a list of calls, or a call that a user must approve, after a pause. Calls are the last action of their step. An approved call ends at the beginning
// of the next step.
type Action struct {
	After   time.Duration
	Say     chunk.Body
	Ask     []Call
	Approve *Approval
}

// Approval is a call of a tool that a user must approve.
type Approval struct {
	ID    string // tool call id
	Tool  string
	Input chunk.Value
}

// Call is the call of a sub-agent.
type Call struct {
	ID        string // tool call id
	AgentType string
	Input     chunk.Value
}

func (e RunInfo) digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{e.Session.String(), e.Turn}, parts...), "\x00")))
	return hex.EncodeToString(sum[:])
}

// Text returns the text of the agent, without its sub-agents.
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

// subAgent is the script of a sub-agent. The function writes the steps and returns the output.
type subAgent struct {
	agentType, topic string
	write            func(*scriptBuilder) any
}

// The sub-agents. One agent type may have several topics.
func subAgents() []subAgent {
	return []subAgent{
		{"researcher", "", (*scriptBuilder).researcher},
		{"cartographer", "", (*scriptBuilder).cartographer},
		{"fact-checker", "", (*scriptBuilder).checker},
		{"fact-checker", topicKettle, (*scriptBuilder).kettle},
	}
}

// SubAgentTypes returns the agent types of the sub-agents.
func SubAgentTypes() []string {
	var types []string
	for _, s := range subAgents() {
		if !slices.Contains(types, s.agentType) {
			types = append(types, s.agentType)
		}
	}
	return types
}

// SubAgent returns the script of a sub-agent for the topic of its input, which may be empty.
func SubAgent(agentType, topic string, info RunInfo) (Agent, error) {
	for _, s := range subAgents() {
		if s.agentType == agentType && s.topic == topic {
			p := newBuilder(info, agentType, subAgentRate)
			return p.done(s.write(p)), nil
		}
	}
	return Agent{}, fmt.Errorf("agent %q: unknown topic %.40q", agentType, topic)
}
