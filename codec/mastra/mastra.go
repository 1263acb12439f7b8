package mastra

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
)

// Config configures the chunks of a run.
type Config struct {
	// Session is the id of the session of the run. Required.
	Session string

	// AgentType is the name of the agent's definition. Defaults to the id in Mastra's start chunk, and before it, or without one, to "agent".
	AgentType string

	// RunID is the run of chunks without a run id. Mastra omits it in some.
	RunID string

	// Step is the step that the run has reached, 0 before the first. A Translator that is created for a later response of a run continues counting from it.
	Step int64
}

// Translator translates the chunks of one run, in all its responses. It is not safe for concurrent use.
type Translator struct {
	cfg       Config
	root      *agent
	messageID string
	rests     dialect.Rests
	out       []chunk.Chunk // result for the current chunk so far
	unused    bool          // the current chunk has a value that was read and is not in out
}

// New creates a Translator.
func New(cfg Config) *Translator {
	root := &agent{session: cfg.Session, kind: cfg.AgentType, run: cfg.RunID, step: cfg.Step}
	root.kind = cmp.Or(root.kind, "agent")
	return &Translator{cfg: cfg, root: root}
}

// MessageID returns Mastra's id of the answer, "" until a chunk contains it.
func (t *Translator) MessageID() string { return t.messageID }

// Translate translates one chunk, JSON in UTF-8. The result may be empty, and belongs to the caller. The error is chunk.ErrInvalid: raw is not a JSON object
// with a type, or exceeds the limits of package chunk; then nothing has changed.
func (t *Translator) Translate(raw []byte) ([]chunk.Chunk, error) {
	whole, err := open(raw)
	if err != nil {
		return nil, err
	}
	if kind, ok := read(whole).text("type"); !ok || kind == "" {
		return nil, &chunk.FieldError{Field: "type", Want: "the type of a Mastra chunk"}
	}
	t.resume(t.root)
	t.handleChunk(t.root, whole)
	return t.take(), nil
}

// End returns the chunks for the end of a response: the run ended, failed, or pauses until the next response. Call it when the response is over. The chunks
// themselves do not show this, because any of them can be followed by another: agents continue after errors, and clients add results after a finish. If a
// response stopped without a reason, it was interrupted and the run failed.
func (t *Translator) End() []chunk.Chunk {
	t.end(t.root)
	return t.take()
}

func (t *Translator) take() []chunk.Chunk {
	out := t.out
	t.out = nil
	return out
}

// agent is the state of the agent of the run, or of a sub-agent.
type agent struct {
	session string
	kind    string
	run     string
	step    int64
	calls   map[string]*call
	output  chunk.Value // the final structured output so far, nil for none
	failure failure     // the last error
	ending  ending      // the outcome if the response ended now
	waitFor string      // of waits
	over    bool        // a finish was the last chunk
	broke   bool        // a finish had the reason error
	waiting []string    // ids of calls that wait for a user
	model   string      // of the step, that response-metadata has named
	paused  bool        // stream_paused was written
	ended   bool        // stream_end or stream_failed was written

	// Of a sub-agent: the call that started it, and its output, which is its result. An agent that continues after its end is opened again.
	parent   *agent
	callID   string
	executes bool // a network runs it
	text     []string
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
func (t *Translator) handleChunk(a *agent, whole chunk.Value) {
	m := message{object: read(whole), whole: whole}
	m.kind, _ = m.text("type")
	m.payload = m.object.object("payload")
	if run, ok := m.text("runId"); ok && run != "" {
		a.run = run
	}
	mark, outer := len(t.out), t.unused
	t.unused = false
	understood := t.translate(a, m)
	read := members
	if t.unused {
		read = membersOfRepeated
	}
	t.unused = outer
	valid := t.out[:mark]
	for _, c := range t.out[mark:] {
		if c.ValidateUnstored() != nil {
			understood = false
			continue
		}
		valid = append(valid, c)
	}
	t.out = valid
	switch {
	case a.kept(valid[mark:], m):
	case !understood:
		t.passThrough(a, m)
	default:
		t.keepRest(a, m, mark, read)
	}
}

// keepRest keeps what a chunk has besides what was read.
func (t *Translator) keepRest(a *agent, m message, mark int, read dialect.LeftOut) {
	kind := m.kind
	if strings.HasPrefix(kind, "data-") {
		kind = "data-"
	}
	if members[kind] == nil {
		return // it is translated as a whole
	}
	if rest := t.rests.Of(dialect.Read(m.whole), kind, read); rest != nil {
		b := chunk.Custom{EventName: keptPrefix + dialect.RestEvent, Data: redact(rest, chunk.MaxDepth)}
		t.out = dialect.Keep(t.out, mark, chunk.Chunk{AgentID: a.session, AgentType: a.kind, Step: a.step, Body: b})
	}
}

// kept reports whether a chunk is among its own translation.
func (a *agent) kept(out []chunk.Chunk, m message) bool {
	return slices.ContainsFunc(out, func(c chunk.Chunk) bool {
		b, ok := chunk.As[chunk.Custom](c)
		return ok && c.AgentID == a.session && b.EventName == keptPrefix+m.kind
	})
}

// message is one of Mastra's chunks. The type is the outer one: payloads repeat the member, sometimes with another value.
type message struct {
	object

	kind    string
	payload object
	whole   chunk.Value
}

// keptPrefix begins the names of the events that are chunks of Mastra.
const keptPrefix = "mastra."

// passThrough keeps a chunk unchanged.
func (t *Translator) passThrough(a *agent, m message) {
	name := keptPrefix + m.kind
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7F }) {
		name = "mastra.unknown"
	}
	t.emit(a, chunk.Custom{EventName: name, Data: redact(m.whole, chunk.MaxDepth)})
}

func (t *Translator) emit(a *agent, b chunk.Body) {
	t.out = append(t.out, chunk.Chunk{AgentID: a.session, AgentType: a.kind, Step: a.step, Body: b})
}

// emitPart is emit for a text or a call with what the provider of the model wants back.
func (t *Translator) emitPart(a *agent, b chunk.Body, p object) {
	t.emit(a, b)
	part := chunk.PartOf([]chunk.Member{{Name: chunk.PartMember, Value: append(append(chunk.Value(`{"providerMetadata":`), orNull(p["providerMetadata"])...), '}')}})
	t.out[len(t.out)-1].Extra = part.Extra()
	t.unused = t.unused || part.ProviderMetadata == nil && !p["providerMetadata"].IsNull()
}

// translate writes the chunks for m, or reports false and writes none.
func (t *Translator) translate(a *agent, m message) bool {
	switch m.kind {
	case "start":
		t.start(a, m)
	case "step-start":
		a.step++
		a.model = ""
		t.emit(a, chunk.StepStart{})
	case "step-finish":
		// also one without content, as after an error: the step has ended
		end := chunk.StepEnd{Usage: dialect.UsageOf(m.payload.object("output")["usage"]), FinishReason: m.payload.object("stepResult").reason()}
		a.modelOf(m.payload.object("metadata")).AddTo(&end)
		t.emit(a, end)
	case "response-metadata": // it is kept as it is
		a.model = m.payload.or("modelId", a.model)
		return false
	case "finish":
		a.finish(m.payload.object("stepResult").or("reason", ""))
	case "text-start", "text-end", "reasoning-start":
	case "text-delta":
		return t.text(a, m)
	case "reasoning-delta":
		piece, ok := m.payload.text("text")
		if ok {
			t.emitPart(a, chunk.Thinking{Content: piece}, m.payload)
		}
		return ok
	case "reasoning-end":
		t.emitPart(a, chunk.Thinking{IsComplete: true}, m.payload)
	case "source":
		return t.source(a, m.payload)
	case "file":
		return t.file(a, m.payload)
	case "object": // a growing snapshot of structured output; the final object-result has the complete value
	case "object-result":
		return t.output(a, m.object["object"])
	case "error":
		return t.error(a, m.payload)
	case "abort":
		// the finish after it has the reason tripwire, and only ends the stream
		if a.ending != failed {
			a.ending = finished
		}
		t.emit(a, chunk.RunInterrupted{RunID: a.run, Reason: m.payload.maybe("reason")})
	case "tripwire":
		return t.tripwire(a, m.payload)
	default:
		return t.translateTool(a, m)
	}
	return true
}

func (t *Translator) start(a *agent, m message) {
	if a.parent != nil {
		return // its type is that of the subagent_start
	}
	t.messageID = m.payload.or("messageId", t.messageID)
	if t.cfg.AgentType == "" {
		a.kind = m.payload.or("id", a.kind)
	}
}

// modelOf returns the model in the metadata of a step: that of the response, and the requested one with its provider.
func (a *agent) modelOf(metadata object) chunk.Model {
	requested := metadata.object("modelMetadata")
	return chunk.Model{
		Name: metadata.or("modelId", a.model), Requested: requested.or("modelId", ""),
		Provider: requested.or("modelProvider", metadata.or("modelProvider", "")),
	}
}

// reason returns a finish reason, nil for none. The chunk schema has fewer.
func (o object) reason() *string {
	reason, ok := o.text("reason")
	if !ok {
		return nil
	}
	if !slices.Contains([]string{"stop", "length", "tool-calls", "content-filter", "error"}, reason) {
		reason = "other"
	}
	return &reason
}

func (t *Translator) text(a *agent, m message) bool {
	piece, ok := m.payload.text("text")
	if !ok {
		return false
	}
	if a.parent != nil {
		a.remember(piece)
	}
	t.emitPart(a, chunk.TextDelta{Delta: piece}, m.payload)
	return true
}

func (t *Translator) source(a *agent, p object) bool {
	id, known := p.text("id")
	kind, _ := p.text("sourceType")
	url, isURL := p.text("url")
	mediaType, isDocument := p.text("mimeType")
	switch {
	case known && kind == "url" && isURL:
		t.emit(a, chunk.SourceURL{SourceID: id, URL: url, Title: p.maybe("title")})
	case known && kind == "document" && isDocument:
		t.emit(a, chunk.SourceDocument{SourceID: id, MediaType: mediaType, Title: p.or("title", ""), Filename: p.maybe("filename")})
	default:
		return false
	}
	return true
}

// file is base64, or a URL if it has a colon, which base64 does not contain.
func (t *Translator) file(a *agent, p object) bool {
	mediaType, ok := p.text("mimeType")
	data, has := p.text("data")
	base64, isBase64 := p.text("base64")
	switch {
	case !ok || !has && !isBase64:
		return false
	case isBase64:
		t.unused = has && data != base64
		data = "data:" + mediaType + ";base64," + base64
	case !strings.Contains(data, ":"):
		data = "data:" + mediaType + ";base64," + data
	}
	t.emit(a, chunk.File{URL: data, MediaType: mediaType, Filename: p.maybe("filename")})
	return true
}

func (t *Translator) output(a *agent, v chunk.Value) bool {
	if v == nil {
		return false
	}
	a.output = v
	t.emit(a, chunk.Output{Output: v})
	return true
}

// error handles an error. It does not end the run: the agent may continue, and a finish has the outcome. Without a finish the run failed with the error.
func (t *Translator) error(a *agent, p object) bool {
	v, ok := p["error"]
	if !ok {
		return false
	}
	a.ending, a.failure = failed, readFailure(v)
	t.emit(a, chunk.Error{Error: a.failure.text, Code: a.failure.code, ErrorDetail: a.failure.detail()})
	return true
}

// tripwire handles a guard that stopped the agent. The run failed with it, unless a finish follows.
func (t *Translator) tripwire(a *agent, p object) bool {
	reason, ok := p.text("reason")
	if !ok {
		return false
	}
	code := "tripwire"
	a.ending, a.failure = failed, failure{text: reason, code: &code}
	t.emit(a, chunk.Error{Error: reason, Code: &code, Recoverable: p.flag("retry")})
	return true
}
