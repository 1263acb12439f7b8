package script

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/subjects"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func env(session, run string) Env {
	return Env{Session: chunk.RootSession("acme", session), RunID: run, Issued: time.UnixMilli(1700000000000)}
}

// frame are the types that the player puts around every step and every call.
var frame = []chunk.Type{
	chunk.TypeStepStart, chunk.TypeStepEnd, chunk.TypeCheckpointCreated, chunk.TypeStepCommitted, chunk.TypeSubagentStart, chunk.TypeSubagentEnd,
}

var allTypes = []chunk.Type{
	chunk.TypeTextDelta, chunk.TypeThinking, chunk.TypeToolArgStreamStart, chunk.TypeToolArgStreamDelta, chunk.TypeToolArgStreamEnd,
	chunk.TypeToolStart, chunk.TypeToolEnd, chunk.TypeToolApprovalRequest, chunk.TypeToolApprovalResponse, chunk.TypeToolInputError,
	chunk.TypeToolOutputError, chunk.TypeSubagentStart, chunk.TypeSubagentEnd, chunk.TypeCustom, chunk.TypeStatePatch, chunk.TypeError,
	chunk.TypeOutput, chunk.TypeSourceURL, chunk.TypeSourceDocument, chunk.TypeStepStart, chunk.TypeStepEnd, chunk.TypeFile,
	chunk.TypeRunInterrupted, chunk.TypeRunResumed, chunk.TypeRunPaused, chunk.TypeExecutorSuperseded, chunk.TypeCheckpointCreated,
	chunk.TypeStepCommitted, chunk.TypeStepDiscarded, chunk.TypeStreamResync, chunk.TypeSuspensionMarker,
}

// The tour alone, with the frame around its steps, uses all 31 types.
func TestTourUsesEveryType(t *testing.T) {
	if len(allTypes) != 31 {
		t.Fatalf("%d types", len(allTypes))
	}
	used := map[chunk.Type]bool{}
	for _, typ := range frame {
		used[typ] = true
	}
	tour, _ := Find("tour")
	tour.Agent(env("s1", "r1")).Each(func(a Agent) {
		for body := range said(a) {
			used[body.Type()] = true
		}
	})
	for _, typ := range allTypes {
		if !used[typ] {
			t.Errorf("%s is not in the tour", typ)
		}
	}
	if len(used) != len(allTypes) {
		t.Errorf("%d types used, the catalogue has %d", len(used), len(allTypes))
	}
}

func said(a Agent) func(func(chunk.Body) bool) {
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

// The same run is the same script, down to the pauses; another run has another
// rhythm and other ids, and says the same.
func TestScriptsAreFunctionsOfTheRun(t *testing.T) {
	for _, s := range Scenarios() {
		one, again, other := s.Agent(env("s1", "r1")), s.Agent(env("s1", "r1")), s.Agent(env("s1", "r2"))
		if !reflect.DeepEqual(one, again) {
			t.Errorf("%s: two scripts of one run differ", s.Name)
		}
		if one.Text() != other.Text() {
			t.Errorf("%s: another run says something else", s.Name)
		}
		if reflect.DeepEqual(one.Steps, other.Steps) {
			t.Errorf("%s: another run has the same rhythm", s.Name)
		}
	}
}

// Everything that a script says passes the catalogue, in a session that has a
// subject.
func TestEverythingIsValid(t *testing.T) {
	for _, s := range Scenarios() {
		ids, sessions := map[string]bool{}, map[string]bool{}
		s.Agent(env("s1", "r1")).Each(func(a Agent) {
			if err := subjects.CheckSession(a.Session); err != nil {
				t.Error(err)
			}
			if sessions[a.Session.ID] {
				t.Errorf("%s: two agents in session %s", s.Name, a.Session.ID)
			}
			sessions[a.Session.ID] = true
			for body := range said(a) {
				if resync, ok := body.(chunk.StreamResync); ok { // the player fills in the checkpoint
					resync.CheckpointID = "c"
					body = resync
				}
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
		})
	}
}

// Streamed arguments are the arguments.
func TestStreamedArgumentsAreTheArguments(t *testing.T) {
	tour, _ := Find("tour")
	checked := 0
	tour.Agent(env("s1", "r1")).Each(func(a Agent) {
		args := map[string]string{}
		for body := range said(a) {
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
	})
	if checked < 5 {
		t.Errorf("%d streamed calls", checked)
	}
}

// The pieces of a text are the text, whatever the text is, and no piece cuts a
// character.
func TestTokensJoinToTheText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		tokens := newPen(env("s1", rapid.StringMatching(`[a-z]{1,8}`).Draw(t, "run")), "a", 30).tokens(text)
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

// The two halves of a character are the character again.
func TestHalvesJoin(t *testing.T) {
	p := newPen(env("s1", "r1"), "a", 30)
	p.halves('🌊')
	a := p.done(nil)
	if a.Text() != "🌊" {
		t.Errorf("%q", a.Text())
	}
	if first := a.Steps[0].Acts[0].Say.(chunk.TextDelta).Delta; first != "\xed\xa0\xbc" {
		t.Errorf("first half %q", first)
	}
}

// The long story is long, in chapters that are its steps, at a readable pace.
func TestLongStory(t *testing.T) {
	long, _ := Find("long")
	a := long.Agent(env("s1", "r1"))
	if got := slices.Collect(said(a)); len(got) < 2000 {
		t.Errorf("%d pieces, want some thousand", len(got))
	}
	if len(a.Steps) != 13 { // the title and twelve chapters
		t.Errorf("%d steps", len(a.Steps))
	}
	if a.Text() != prose("long") {
		t.Error("the chapters are not the story")
	}
}

// A model says 20 to 60 tokens a second, and no scenario takes for ever.
func TestPace(t *testing.T) {
	for _, s := range Scenarios() {
		var whole time.Duration
		for _, step := range s.Agent(env("s1", "r1")).Steps {
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
		t.Error("found what is not there")
	}
}
