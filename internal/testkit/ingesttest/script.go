package ingesttest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
)

// The types of the agents of a Script.
const (
	AgentType = "main" // of the run: open it with this type
	subType   = "sub"
)

// at is the time of each line, so that records can be compared.
const at = 7

// Script is a run: its lines, and the chunks that they are.
type Script struct {
	Lines []string

	session string
	chunks  map[string][]expected // by session id
	steps   map[string]int64      // likewise: of the last line
	open    []string              // sub-agents that have not ended, in the order of their starts
}

// expected is a chunk of a line.
type expected struct {
	chunk.Chunk

	line int // counts from 1; 0 for the record of the open run
}

// Random returns a random run of an agent in a session, and of its sub-agents.
func Random(rng *rand.Rand, session string) *Script {
	s := &Script{session: session, chunks: map[string][]expected{}, steps: map[string]int64{}}
	s.expect(session, chunk.RunStarted{})
	for n := rng.IntN(40); n >= 0; n-- {
		s.random(rng)
	}
	s.text(rng, session, 1)
	return s
}

// random adds a line.
func (s *Script) random(rng *rand.Rand) {
	agents := append([]string{s.session}, s.open...)
	agent := agents[rng.IntN(len(agents))]
	switch k := rng.IntN(20); {
	case k < 10:
		s.text(rng, agent, 1+rng.IntN(30))
	case k == 10:
		s.text(rng, agent, 4<<10+rng.IntN(8<<10)) // is split if the limit of a chunk is 4 KiB
	case k == 11:
		s.Lines = append(s.Lines, "")
	case k < 14:
		s.steps[agent]++
		s.line(rng, agent, "", chunk.StepStart{})
	case k < 16:
		s.line(rng, agent, `,"content":"hm","isComplete":false`, chunk.Thinking{Content: "hm"})
	case k < 18:
		s.line(rng, agent, `,"eventName":"n","data":[1]`, chunk.Custom{EventName: "n", Data: chunk.Value("[1]")})
	case k == 18 && len(s.open) < 3:
		s.start(rng, agent, fmt.Sprintf("%s-%d", s.session, rng.IntN(9))) // perhaps one that has ended
	case k == 19 && agent != s.session:
		s.end(rng, agent)
	}
}

func (s *Script) start(rng *rand.Rand, parent, id string) {
	if slices.Contains(s.open, id) {
		return
	}
	s.line(rng, parent, fmt.Sprintf(`,"subAgentType":%q,"subSessionId":%q,"callId":"c"`, subType, id), chunk.SubagentStart{SubAgentType: subType, SubSessionID: id, CallID: "c"})
	s.open = append(s.open, id)
	s.steps[id] = 0
	s.expect(id, chunk.RunStarted{})
}

// end ends a sub-agent. The session of the run reports it, also if a sub-agent is the parent.
func (s *Script) end(rng *rand.Rand, id string) {
	s.line(rng, s.session, fmt.Sprintf(`,"subAgentType":%q,"subSessionId":%q,"callId":"c","result":null`, subType, id),
		chunk.SubagentEnd{SubAgentType: subType, SubSessionID: id, CallID: "c", Result: chunk.Value("null")})
	s.open = slices.DeleteFunc(s.open, func(other string) bool { return other == id })
	s.expect(id, chunk.StreamEnd{StreamID: id})
}

func (s *Script) text(rng *rand.Rand, agent string, n int) {
	piece := strings.Repeat(string(rune('a'+rng.IntN(26))), n)
	s.line(rng, agent, fmt.Sprintf(`,"delta":%q`, piece), chunk.TextDelta{Delta: piece})
}

// line adds a line with a chunk. It leaves out members that follow from the lines before.
func (s *Script) line(rng *rand.Rand, agent, members string, body chunk.Body) {
	line := fmt.Sprintf(`{"type":%q,"timestamp":%d%s`, chunk.Chunk{Body: body}.Type(), at, members)
	if agent != s.session || rng.IntN(2) == 0 {
		line += fmt.Sprintf(`,"agentId":%q`, agent)
	}
	if rng.IntN(3) == 0 {
		line += fmt.Sprintf(`,"step":%d`, s.steps[agent])
	}
	s.Lines = append(s.Lines, line+"}")
	s.expect(agent, body)
}

// expect adds a chunk of the last line.
func (s *Script) expect(agent string, body chunk.Body) {
	kind := AgentType
	if agent != s.session {
		kind = subType
	}
	c := chunk.Chunk{AgentID: agent, AgentType: kind, Timestamp: at, Step: s.steps[agent], Body: body}
	s.chunks[agent] = append(s.chunks[agent], expected{c, len(s.Lines)})
}

// End adds what a request that ends the run stores: it ends the sub-agents too.
func (s *Script) End() {
	for _, id := range s.open {
		s.expect(id, chunk.StreamEnd{StreamID: id})
	}
	s.open = nil
	s.expect(s.session, chunk.StreamEnd{StreamID: s.session})
}

// Session returns the id of the session of the run.
func (s *Script) Session() string { return s.session }

// Sessions returns the ids of the sessions that have records.
func (s *Script) Sessions() []string {
	var all []string
	for id := range s.chunks {
		all = append(all, id)
	}
	slices.Sort(all)
	return all
}
