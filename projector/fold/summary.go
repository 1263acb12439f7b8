package fold

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tailrace/tailrace/chunk"
)

// Summary is what a list shows of a session besides its status. It is bounded, because a header of each stored head has it. In a session whose head was last saved
// by a build without it, it begins after that head.
type Summary struct {
	Title       string       `json:"title,omitempty"` // one line of the first user message that is shown and has text
	Runs        int64        `json:"runs,omitempty"`
	Messages    int64        `json:"messages,omitempty"` // also those that were replaced
	FailedCalls int64        `json:"failedCalls,omitempty"`
	Models      []ModelUsage `json:"models,omitempty"`      // those with most tokens first, then one without a name for the rest
	Error       *LatestError `json:"error,omitempty"`       // nil if nothing has failed
	Approvals   int64        `json:"approvals,omitempty"`   // calls that wait for an approval
	ClientTools int64        `json:"clientTools,omitempty"` // calls that wait for the client
}

// ModelUsage is what the steps of one model used: those whose cost was reported in Currency, or those without a reported cost.
type ModelUsage struct {
	Usage

	Model    string `json:"model,omitempty"` // "" if it is not known, and for the rest
	Provider string `json:"provider,omitempty"`
	Currency string `json:"currency,omitempty"` // "" for steps without a reported cost
	Cost     int64  `json:"cost,omitempty"`     // in billionths
}

// LatestError is the last failure of a run or a call, or the last error that the agent reported.
type LatestError struct {
	Code string `json:"code,omitempty"`
	Text string `json:"text,omitempty"` // one line
	Tool string `json:"tool,omitempty"` // of a call
	At   int64  `json:"at,omitempty"`   // when the log stored it, in milliseconds since 1970 UTC
}

// Bounds of a Summary, in characters for titles and in bytes for the rest.
const (
	maxTitle        = 80
	maxErrorCode    = 64
	maxErrorLine    = 120
	maxModelName    = 64
	maxModels       = 16 // that are counted apart
	maxListedModels = 4  // that a Summary lists apart
)

// toolFailed is the code of the failure of a call.
const toolFailed = "tool_failed"

// counts is the part of a Summary that is folded.
type counts struct {
	title              string
	titleOf            int // index of the message with the title
	runs, failedCalls  int64
	runModel, provider string // of the steps of the present run that name none
	models             []ModelUsage
	latest             *LatestError
}

func (c *counts) fields(f *form) {
	textMember(f, "title", &c.title)
	numberMember(f, "titleOf", &c.titleOf)
	numberMember(f, "runs", &c.runs)
	numberMember(f, "failedCalls", &c.failedCalls)
	textMember(f, "runModel", &c.runModel)
	textMember(f, "provider", &c.provider)
	objectsMember(f, "models", &c.models, func(m *ModelUsage, f *form) {
		textMember(f, "model", &m.Model)
		textMember(f, "provider", &m.Provider)
		textMember(f, "currency", &m.Currency)
		numberMember(f, "cost", &m.Cost)
		m.fields(f)
	})
	optionalMember(f, "error", &c.latest, func(e *LatestError, f *form) {
		textMember(f, "code", &e.Code)
		textMember(f, "text", &e.Text)
		textMember(f, "tool", &e.Tool)
		numberMember(f, "at", &e.At)
	})
}

// Summary returns the Summary of s. It shares memory with s.
func (s Snapshot) Summary() Summary {
	if s.deleted || s.WasDeleted() {
		return Summary{}
	}
	out := Summary{
		Title: s.counts.title, Runs: s.counts.runs, Messages: int64(s.messages.count()), FailedCalls: s.counts.failedCalls,
		Models: listedModels(s.counts.models, s.Usage), Error: s.counts.latest,
	}
	for _, p := range s.Pending {
		if p.Kind == PendingApproval {
			out.Approvals++
		} else {
			out.ClientTools++
		}
	}
	return out
}

// listedModels returns the models with most tokens, and what is left of all.
func listedModels(models []ModelUsage, all Usage) []ModelUsage {
	named := slices.DeleteFunc(slices.Clone(models), func(m ModelUsage) bool { return m.Model == "" && m.Currency == "" })
	slices.SortStableFunc(named, func(a, b ModelUsage) int { return cmp.Compare(b.Input+b.Output, a.Input+a.Output) })
	named = slices.Clip(named[:min(len(named), maxListedModels)])
	for _, m := range named {
		all = Usage{max(0, all.Input-m.Input), max(0, all.Output-m.Output), max(0, all.Cached-m.Cached), max(0, all.CacheWrite-m.CacheWrite)}
	}
	if all == (Usage{}) {
		return named
	}
	return append(named, ModelUsage{Usage: all})
}

// Shortened returns s with at most maxBytes bytes of each of its texts, and with the usage of all models as one.
func (s Summary) Shortened(maxBytes int) Summary {
	s.Title = lineOf(s.Title, maxBytes)
	if s.Error != nil {
		e := *s.Error
		s.Error = &LatestError{lineOf(e.Code, maxBytes), lineOf(e.Text, maxBytes), lineOf(e.Tool, maxBytes), e.At}
	}
	var all ModelUsage
	for _, m := range s.Models {
		all.Usage = Usage{all.Input + m.Input, all.Output + m.Output, all.Cached + m.Cached, all.CacheWrite + m.CacheWrite}
	}
	if s.Models = nil; all != (ModelUsage{}) {
		s.Models = []ModelUsage{all}
	}
	return s
}

// start counts a run.
func (c *counts) start(b chunk.RunStarted, same bool) {
	if !same {
		c.runs++
		c.runModel, c.provider = "", ""
	}
	c.runModel, c.provider = cmp.Or(nameOf(b.Model), c.runModel), cmp.Or(nameOf(b.Provider), c.provider)
}

// setTitle sets the title from the inputs of a turn, which are the messages from an index on. A title of a message that they replace is dropped.
func (s *Snapshot) setTitle(inputs []chunk.InputMessage, first int) {
	c := &s.counts
	if c.title != "" && s.isReplaced(c.titleOf) {
		c.title = ""
	}
	for i, in := range inputs {
		if c.title == "" && (in.Metadata == nil || !IsHidden(*in.Metadata)) {
			title := []rune(lineOf(in.Content, maxTitle*utf8.UTFMax))
			c.title, c.titleOf = string(title[:min(len(title), maxTitle)]), first+i
		}
	}
}

// fail records the latest error.
func (c *counts) fail(rec chunk.Record, code, text, tool string) {
	c.latest = &LatestError{Code: lineOf(code, maxErrorCode), Text: lineOf(text, maxErrorLine), Tool: lineOf(tool, maxErrorCode), At: millis(rec)}
}

// failCall records the failure of a call.
func (c *counts) failCall(rec chunk.Record, text, tool string) {
	c.failedCalls++
	c.fail(rec, toolFailed, text, tool)
}

// use counts the tokens of a step for its model.
func (c *counts) use(b chunk.StepEnd) {
	of := ModelUsage{Model: nameOf(b.Model), Provider: nameOf(b.Provider)}
	if b.Model == nil {
		of.Model = c.runModel
	}
	of.Provider = cmp.Or(of.Provider, c.provider)
	cost := int64(0)
	if b.Usage.Cost != nil {
		if amount, ok := chunk.Number(*b.Usage.Cost).Float64(); ok && amount >= 0 && amount < 1e9 {
			cost, of.Currency = int64(amount*1e9+0.5), cmp.Or(nameOf(b.Usage.Currency), "USD")
		}
	}
	i := slices.IndexFunc(c.models, func(m ModelUsage) bool {
		return m.Model == of.Model && m.Provider == of.Provider && m.Currency == of.Currency
	})
	c.models = slices.Clone(c.models) // earlier snapshots share the list
	if i < 0 {
		if len(c.models) == maxModels {
			return // it is in the sum of all
		}
		i, c.models = len(c.models), append(c.models, of)
	}
	m := &c.models[i]
	m.add(*b.Usage)
	m.Cost = min(maxCount, m.Cost+cost)
}

// nameOf returns a name of a model, "" for none and for one that is too long.
func nameOf(name *string) string {
	if name == nil || len(*name) > maxModelName {
		return ""
	}
	return *name
}

// lineOf returns the beginning of a text on one line, in at most maxBytes bytes of UTF-8, without control and formatting characters.
func lineOf(text string, maxBytes int) string {
	text = strings.ToValidUTF8(text[:min(len(text), 4*maxBytes)], "")
	words := strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.In(r, unicode.Cc, unicode.Cf) })
	return cut(strings.Join(words, " "), maxBytes)
}
