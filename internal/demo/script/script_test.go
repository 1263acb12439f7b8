package script

import (
	"encoding/json"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/names"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func info(session, run string) RunInfo {
	return RunInfo{Session: chunk.RootSession("acme", session), Turn: run, RunID: run}
}

// sdkTypes are the types that the workers SDK writes around steps, calls, suspensions and retries.
var sdkTypes = []chunk.Type{
	chunk.TypeStepStart, chunk.TypeStepEnd, chunk.TypeCheckpointCreated, chunk.TypeStepCommitted, chunk.TypeSubagentStart, chunk.TypeSubagentEnd,
	chunk.TypeRunPaused, chunk.TypeSuspensionMarker, chunk.TypeStepDiscarded, chunk.TypeStreamResync,
}

var allTypes = []chunk.Type{
	chunk.TypeTextDelta, chunk.TypeThinking, chunk.TypeToolArgStreamStart, chunk.TypeToolArgStreamDelta, chunk.TypeToolArgStreamEnd,
	chunk.TypeToolStart, chunk.TypeToolEnd, chunk.TypeToolApprovalRequest, chunk.TypeToolApprovalResponse, chunk.TypeToolInputError,
	chunk.TypeToolOutputError, chunk.TypeSubagentStart, chunk.TypeSubagentEnd, chunk.TypeCustom, chunk.TypeStatePatch, chunk.TypeError,
	chunk.TypeOutput, chunk.TypeSourceURL, chunk.TypeSourceDocument, chunk.TypeStepStart, chunk.TypeStepEnd, chunk.TypeFile,
	chunk.TypeRunInterrupted, chunk.TypeRunResumed, chunk.TypeRunPaused, chunk.TypeExecutorSuperseded, chunk.TypeCheckpointCreated,
	chunk.TypeStepCommitted, chunk.TypeStepDiscarded, chunk.TypeStreamResync, chunk.TypeSuspensionMarker,
}

// The tour alone, with the records of the SDK, uses all 31 types.
func TestTourUsesEveryType(t *testing.T) {
	if len(allTypes) != 31 {
		t.Fatalf("%d types", len(allTypes))
	}
	used := map[chunk.Type]bool{}
	for _, typ := range sdkTypes {
		used[typ] = true
	}
	tour, _ := Find("tour")
	for _, a := range withSubAgents(t, tour) {
		for body := range bodies(a) {
			used[chunk.Chunk{Body: body}.Type()] = true
		}
	}
	for _, typ := range allTypes {
		if !used[typ] {
			t.Errorf("%s is not in the tour", typ)
		}
	}
	if len(used) != len(allTypes) {
		t.Errorf("%d types used, the schema has %d", len(used), len(allTypes))
	}
}

// bodies yields the chunks of an agent, without discarded ones.
func bodies(a Agent) iter.Seq[chunk.Body] {
	return func(yield func(chunk.Body) bool) {
		for _, step := range a.Steps {
			for _, act := range step.Acts {
				if act.Say != nil && !yield(act.Say) {
					return
				}
			}
		}
	}
}

// withSubAgents returns the agent of a scenario and all agents below it.
func withSubAgents(t *testing.T, s Scenario) []Agent {
	t.Helper()
	all := []Agent{s.Agent(info("s1", "r1"))}
	for i := 0; i < len(all); i++ {
		for _, step := range all[i].Steps {
			for _, act := range step.Acts {
				for _, c := range act.Ask {
					var in struct {
						Topic string `json:"topic"`
					}
					if err := json.Unmarshal(c.Input, &in); err != nil {
						t.Fatal(err)
					}
					a, err := SubAgent(c.AgentType, in.Topic, RunInfo{Session: all[i].Session.Child("sub-" + c.ID), Turn: "msg-0", RunID: "r-" + c.ID})
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, a)
				}
			}
		}
	}
	return all
}

// A script is a function of the turn, including its pauses. Other turns have other pauses and ids, and the same
// text.
func TestScriptsAreFunctionsOfTheTurn(t *testing.T) {
	for _, s := range Scenarios() {
		one, again, other := s.Agent(info("s1", "r1")), s.Agent(info("s1", "r1")), s.Agent(info("s1", "r2"))
		if !reflect.DeepEqual(one, again) {
			t.Errorf("%s: two scripts of one turn differ", s.Name)
		}
		if one.Text() != other.Text() {
			t.Errorf("%s: another turn has another text", s.Name)
		}
		if reflect.DeepEqual(one.Steps, other.Steps) {
			t.Errorf("%s: another turn has the same pauses", s.Name)
		}
		resumed := info("s1", "r1")
		resumed.RunID = "r2"
		if ids, want := callIDs(s.Agent(resumed)), callIDs(one); !slices.Equal(ids, want) {
			t.Errorf("%s: calls %q after a suspension, want %q", s.Name, ids, want)
		}
	}
}

func callIDs(a Agent) []string {
	var ids []string
	for body := range bodies(a) {
		if b, ok := body.(chunk.ToolStart); ok {
			ids = append(ids, b.ToolCallID)
		}
	}
	return ids
}

// Every chunk of a script is valid. Calls are the last action of a step, and never in the last step.
func TestChunksOfEveryScenarioAreValid(t *testing.T) {
	for _, s := range Scenarios() {
		ids, sessions := map[string]bool{}, map[string]bool{}
		for _, a := range withSubAgents(t, s) {
			if err := names.CheckSession(a.Session); err != nil {
				t.Error(err)
			}
			if sessions[a.Session.ID] {
				t.Errorf("%s: two agents in session %s", s.Name, a.Session.ID)
			}
			sessions[a.Session.ID] = true
			for body := range bodies(a) {
				c := chunk.Chunk{AgentID: a.Session.ID, AgentType: a.Type, Timestamp: 1, Body: body}
				if err := c.Validate(); err != nil {
					t.Errorf("%s: %v", s.Name, err)
				}
				if end, ok := body.(chunk.ToolEnd); ok {
					if ids[end.ToolCallID] {
						t.Errorf("%s: call %s ends twice", s.Name, end.ToolCallID)
					}
					ids[end.ToolCallID] = true
				}
			}
			for n, step := range a.Steps {
				at := slices.IndexFunc(step.Acts, func(act Action) bool { return len(act.Ask) > 0 })
				if at >= 0 && (at < len(step.Acts)-1 || n == len(a.Steps)-1) {
					t.Errorf("%s, %s: action %d of step %d calls sub-agents", s.Name, a.Type, at+1, n+1)
				}
			}
		}
	}
}

// Streamed arguments equal the complete arguments.
func TestStreamedArgumentsAreTheArguments(t *testing.T) {
	tour, _ := Find("tour")
	checked := 0
	for _, a := range withSubAgents(t, tour) {
		args := map[string]string{}
		for body := range bodies(a) {
			switch b := body.(type) {
			case chunk.ToolArgStreamDelta:
				args[b.ToolCallID] += b.Delta
			case chunk.ToolStart:
				if streamed, ok := args[b.ToolCallID]; ok {
					checked++
					if streamed != string(b.Arguments) {
						t.Errorf("%s: streamed %s, called with %s", b.ToolName, streamed, b.Arguments)
					}
				}
			}
		}
	}
	if checked < 5 {
		t.Errorf("%d streamed calls", checked)
	}
}

// The pieces of any text join to the text, and no piece splits a character.
func TestTokensJoinToTheText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		tokens := newBuilder(info("s1", rapid.StringMatching(`[a-z]{1,8}`).Draw(t, "run")), "a", 30).tokens(text)
		if got := strings.Join(tokens, ""); got != text {
			t.Fatalf("%q", got)
		}
		for _, token := range tokens {
			if token == "" || !utf8.ValidString(token) {
				t.Fatalf("piece %q", token)
			}
		}
	})
}

// The two halves join to the character.
func TestHalvesJoin(t *testing.T) {
	p := newBuilder(info("s1", "r1"), "a", 30)
	p.halves('🌊')
	a := p.done(nil)
	if a.Text() != "🌊" {
		t.Errorf("%q", a.Text())
	}
	if first := a.Steps[0].Acts[0].Say.(chunk.TextDelta).Delta; first != "\xed\xa0\xbc" {
		t.Errorf("first half %q", first)
	}
}

// The long scenario has thousands of pieces, in chapters that are its steps.
func TestLongScenario(t *testing.T) {
	long, _ := Find("long")
	a := long.Agent(info("s1", "r1"))
	if got := slices.Collect(bodies(a)); len(got) < 2000 {
		t.Errorf("%d pieces, want some thousand", len(got))
	}
	if len(a.Steps) != 13 { // the title and twelve chapters
		t.Errorf("%d steps", len(a.Steps))
	}
	if a.Text() != prose("long") {
		t.Error("chapters do not join to the text")
	}
}

// The pace is 20 to 60 tokens per second, and no scenario is very long.
func TestPace(t *testing.T) {
	for _, s := range Scenarios() {
		var whole time.Duration
		for _, step := range s.Agent(info("s1", "r1")).Steps {
			for _, act := range step.Acts {
				whole += act.After
			}
		}
		if whole < 2*time.Second || whole > 2*time.Minute {
			t.Errorf("%s takes %s without its sub-agents", s.Name, whole)
		}
		if s.rate < 20 || s.rate > 60 {
			t.Errorf("%s: %v tokens a second", s.Name, s.rate)
		}
	}
}

func TestScenariosAreNamed(t *testing.T) {
	names := map[string]bool{}
	for _, s := range Scenarios() {
		if names[s.Name] || s.Title == "" || s.Summary == "" || s.Prompt == "" {
			t.Errorf("scenario %+v", s)
		}
		names[s.Name] = true
		if found, ok := Find(s.Name); !ok || found.Title != s.Title {
			t.Errorf("%s is not found", s.Name)
		}
	}
	if _, ok := Find("no such"); ok {
		t.Error("found an unknown scenario")
	}
}
