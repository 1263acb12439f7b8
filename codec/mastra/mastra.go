package mastra

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/dialect"
)

// translator translates the chunks of one run, in all its responses. It is not safe for concurrent use.
type translator struct {
	b      *dialect.Builder
	root   *agent
	unused bool // the current chunk has a value that was read and is not in its translation
}

// New returns a Translator of a run; its Session is required. The AgentType defaults to the id in Mastra's start chunk, and before it, or without one, to "agent". The RunID is that of chunks without
// one: Mastra omits it in some.
func New(cfg codec.Run) codec.Translator {
	b, root := dialect.NewBuilder(keptPrefix, cfg)
	return &translator{b: b, root: &agent{Agent: root, run: cfg.RunID, unnamed: cfg.AgentType == ""}}
}

// Translate translates one chunk, JSON in UTF-8. The result may be empty, and belongs to the caller. The error is chunk.ErrInvalid: raw is not a JSON object
// with a type, or exceeds the limits of package chunk; then nothing has changed.
func (t *translator) Translate(raw []byte) ([]chunk.Chunk, error) {
	whole, err := open(raw)
	if err != nil {
		return nil, err
	}
	m := dialect.Read(whole)
	if m.Or("type", "") == "" {
		return nil, &chunk.FieldError{Field: "type", Want: "the type of a Mastra chunk"}
	}
	t.resume(t.root)
	t.handleChunk(t.root, m)
	return t.b.Take(), nil
}

// End returns the chunks for the end of a response: the run ended, failed, or pauses until the next response. Call it when the response is over. The chunks
// themselves do not show this, because any of them can be followed by another: agents continue after errors, and clients add results after a finish. If a
// response stopped without a reason, it was interrupted and the run failed.
func (t *translator) End() []chunk.Chunk {
	if t.root.ending == waits {
		t.pause(t.root, "")
	} else {
		t.conclude(t.root, nil)
	}
	return t.b.Take()
}

// agent is the state of the agent of the run, or of a sub-agent.
type agent struct {
	dialect.Agent

	run     string
	unnamed bool // the agentType is the id in the start chunk
	calls   map[string]*call
	output  chunk.Value       // the final structured output so far, nil for none
	failure chunk.ErrorDetail // the last error
	ending  ending            // the outcome if the response ended now
	waitFor string            // of waits
	over    bool              // a finish was the last chunk
	broke   bool              // a finish had the reason error
	waiting []string          // ids of calls that wait for a user
	model   string            // of the step, that response-metadata has named

	above    *agent   // the parent of a sub-agent; one that continues after its end is opened again
	executes bool     // a network runs it
	children []*agent // sub-agents that have not ended
}

type ending int

const (
	interrupted ending = iota
	waits
	finished
	failed
)

// call is a tool call whose arguments are incomplete or complete, and that has not started.
type call struct {
	name    string
	args    []string // pieces of their JSON text
	started bool     // its tool_start was written
}

// handleChunk translates a chunk of an agent. An unknown or malformed chunk is kept unchanged.
func (t *translator) handleChunk(a *agent, whole *dialect.Object) {
	m := message{Object: whole, kind: whole.Or("type", ""), payload: whole.Object("payload")}
	a.run = cmp.Or(whole.Or("runId", ""), a.run)
	mark, outer := len(t.b.Out), t.unused
	t.unused = false
	understood := t.translate(a, m)
	read := members
	if t.unused {
		read = membersOfRepeated
	}
	t.unused = outer
	understood = t.b.Valid(mark) && understood
	switch {
	case a.kept(t.b.Out[mark:], m):
	case !understood:
		t.passThrough(a, m)
	default:
		t.keepRest(a, m, mark, read)
	}
}

// keepRest keeps what a chunk has besides what was read.
func (t *translator) keepRest(a *agent, m message, mark int, read dialect.LeftOut) {
	kind := m.kind
	if strings.HasPrefix(kind, "data-") {
		kind = "data-"
	}
	if members[kind] == nil {
		return // it is translated as a whole
	}
	a.KeepRest(mark, redact(t.b.Rests.Of(m.Reset(), kind, read), chunk.MaxDepth))
}

// kept reports whether a chunk is among its own translation.
func (a *agent) kept(out []chunk.Chunk, m message) bool {
	return slices.ContainsFunc(out, func(c chunk.Chunk) bool {
		b, ok := chunk.As[chunk.Custom](c)
		return ok && c.AgentID == a.Session && b.EventName == keptPrefix+m.kind
	})
}

// message is one of Mastra's chunks. The type is the outer one: payloads repeat the member, sometimes with another value.
type message struct {
	*dialect.Object

	kind    string
	payload *dialect.Object
}

// keptPrefix begins the names of the events that are chunks of Mastra.
const keptPrefix = "mastra."

// passThrough keeps a chunk unchanged.
func (t *translator) passThrough(a *agent, m message) {
	a.Keep(m.kind, redact(m.All(), chunk.MaxDepth))
}

// part returns the members of a text or a call that the provider of the model wants back.
func (t *translator) part(p *dialect.Object) []chunk.Member {
	v := dialect.OrNull(p.Peek("providerMetadata"))
	part := chunk.PartOf([]chunk.Member{{Name: chunk.PartMember, Value: append(append(chunk.Value(`{"providerMetadata":`), v...), '}')}})
	t.unused = t.unused || part.ProviderMetadata == nil && !v.IsNull()
	return part.Extra()
}

// translate writes the chunks for m, or reports false and writes none.
func (t *translator) translate(a *agent, m message) bool {
	switch m.kind {
	case "start":
		t.start(a, m)
	case "step-start":
		a.model = ""
		a.NextStep(nil)
	case "step-finish":
		// also one without content, as after an error: the step has ended
		end := chunk.StepEnd{Usage: dialect.UsageOf(m.payload.Object("output").Peek("usage")), FinishReason: reasonOf(m.payload.Object("stepResult"))}
		a.modelOf(m.payload.Object("metadata")).AddTo(&end)
		a.Emit(end)
	case "response-metadata": // it is kept as it is
		a.model = m.payload.Or("modelId", a.model)
		return false
	case "finish":
		a.finish(m.payload.Object("stepResult").Or("reason", ""))
	case "text-start", "text-end", "reasoning-start":
	case "text-delta":
		return t.text(a, m)
	case "reasoning-delta":
		piece, ok := m.payload.Text("text")
		if ok {
			a.Emit(chunk.Thinking{Content: piece}, t.part(m.payload)...)
		}
		return ok
	case "reasoning-end":
		a.Emit(chunk.Thinking{IsComplete: true}, t.part(m.payload)...)
	case "source":
		return t.source(a, m.payload)
	case "file":
		return t.file(a, m.payload)
	case "object": // a growing snapshot of structured output; the final object-result has the complete value
	case "object-result":
		return t.output(a, m.Peek("object"))
	case "error":
		return t.error(a, m.payload)
	case "abort":
		// the finish after it has the reason tripwire, and only ends the stream
		if a.ending != failed {
			a.ending = finished
		}
		a.Emit(chunk.RunInterrupted{RunID: a.run, Reason: m.payload.Maybe("reason")})
	case "tripwire":
		return t.tripwire(a, m.payload)
	default:
		return t.translateTool(a, m)
	}
	return true
}

func (t *translator) start(a *agent, m message) {
	if a.Parent != nil {
		return // its type is that of the subagent_start
	}
	m.payload.Text("messageId") // is read: the ids of answers are those of the log
	if a.unnamed {
		a.Type = m.payload.Or("id", a.Type)
	}
}

// modelOf returns the model in the metadata of a step: that of the response, and the requested one with its provider.
func (a *agent) modelOf(metadata *dialect.Object) chunk.Model {
	requested := metadata.Object("modelMetadata")
	return chunk.Model{
		Name: metadata.Or("modelId", a.model), Requested: requested.Or("modelId", ""),
		Provider: requested.Or("modelProvider", metadata.Or("modelProvider", "")),
	}
}

// reasonOf returns the finish reason in the result of a step, nil for none.
func reasonOf(result *dialect.Object) *string {
	reason := result.Maybe("reason")
	if reason != nil {
		*reason, _ = dialect.FinishReason(*reason)
	}
	return reason
}

func (t *translator) text(a *agent, m message) bool {
	piece, ok := m.payload.Text("text")
	if ok {
		a.Text(piece, t.part(m.payload)...)
	}
	return ok
}

func (t *translator) source(a *agent, p *dialect.Object) bool {
	id, known := p.Text("id")
	kind, _ := p.Text("sourceType")
	url, isURL := p.Text("url")
	mediaType, isDocument := p.Text("mimeType")
	switch {
	case known && kind == "url" && isURL:
		a.Emit(chunk.SourceURL{SourceID: id, URL: url, Title: p.Maybe("title")})
	case known && kind == "document" && isDocument:
		a.Emit(chunk.SourceDocument{SourceID: id, MediaType: mediaType, Title: p.Or("title", ""), Filename: p.Maybe("filename")})
	default:
		return false
	}
	return true
}

// file is base64, or a URL if it has a colon, which base64 does not contain.
func (t *translator) file(a *agent, p *dialect.Object) bool {
	mediaType, ok := p.Text("mimeType")
	data, has := p.Text("data")
	base64, isBase64 := p.Text("base64")
	switch {
	case !ok || !has && !isBase64:
		return false
	case isBase64:
		t.unused = has && data != base64
		data = "data:" + mediaType + ";base64," + base64
	case !strings.Contains(data, ":"):
		data = "data:" + mediaType + ";base64," + data
	}
	a.Emit(chunk.File{URL: data, MediaType: mediaType, Filename: p.Maybe("filename")})
	return true
}

func (t *translator) output(a *agent, v chunk.Value) bool {
	if v == nil {
		return false
	}
	a.output = v
	a.Emit(chunk.Output{Output: v})
	return true
}

// error handles an error. It does not end the run: the agent may continue, and a finish has the outcome. Without a finish the run failed with the error.
func (t *translator) error(a *agent, p *dialect.Object) bool {
	v := p.Peek("error")
	if v == nil {
		return false
	}
	a.ending, a.failure = failed, readFailure(v)
	a.Emit(chunk.Error{Error: a.failure.Message, Code: a.failure.Code, ErrorDetail: new(a.failure)})
	return true
}

// tripwire handles a guard that stopped the agent. The run failed with it, unless a finish follows.
func (t *translator) tripwire(a *agent, p *dialect.Object) bool {
	reason, ok := p.Text("reason")
	if !ok {
		return false
	}
	code := "tripwire"
	a.ending, a.failure = failed, chunk.ErrorDetail{Message: reason, Code: &code}
	a.Emit(chunk.Error{Error: reason, Code: &code, Recoverable: p.Flag("retry")})
	return true
}
