//go:build e2e

package clients

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/testkit/browsertest"
)

// hostile are texts of agents and users that a page must show as text.
var hostile = []string{
	`<img src=x onerror="document.title='owned'">`, `<script>document.title='owned'</script>`, `javascript:document.title='owned'`,
	`"><svg onload=document.title='owned'>`, "\u202Egnp.exe", `{{constructor.constructor("document.title='owned'")()}}`, `</title><style>*{display:none}</style>`,
	`__proto__`, `constructor`, "a\u0000b", strings.Repeat("W", 10_000), "\u0634\u0627\u0631\u0644\u0648\u062A\u202B\u05D0\u05D1 \u2066(1)\u2069", "👩‍👩‍👧‍👦🏳️‍🌈🇪🇺 e\u0301\u0323\uFE0F", "a\u2028b\u2029c\u0085d",
	"${document.title='owned'} <%= document.title='owned' %> #{document.title='owned'}", `[a](javascript:document.title='owned') <javascript:document.title='owned'>`, "</script><!--<script>\\\"'`",
}

// nameOf returns a text as a name of a tool, an event or an agent may have it: without control characters, and of at most n bytes.
func nameOf(text string, n int) string {
	name := strings.Map(func(r rune) rune {
		if r < ' ' {
			return -1
		}
		return r
	}, text)
	return strings.ToValidUTF8(name[:min(len(name), n)], "")
}

// writeHostile writes a session with the hostile texts.
func (w *env) writeHostile(id string) {
	w.t.Helper()
	w.writeTexts(id, hostile)
}

// writeTexts writes a session with each text in each place that an agent may write.
func (w *env) writeTexts(id string, texts []string) {
	w.t.Helper()
	run := w.start(id)
	w.emit(run, chunk.StepStart{})
	for i, text := range texts {
		data := chunk.Value(quote(text))
		call, name := fmt.Sprint("c", i), nameOf(text, len(text))
		asked := fmt.Sprint("asked-", i)
		w.emit(run,
			chunk.TextDelta{Delta: text + id}, chunk.Thinking{Content: text, IsComplete: true},
			chunk.ToolStart{ToolCallID: call, ToolName: name, Arguments: chunk.Value(`{"__proto__":` + quote(text) + `}`)},
			chunk.ToolEnd{ToolCallID: call, ToolName: name, Result: data, Error: &text},
			chunk.Custom{EventName: name, Data: data}, chunk.SourceURL{SourceID: name, URL: "https://elsewhere.example/", Title: &text},
			chunk.SourceURL{SourceID: name, URL: "data:text/html," + text}, chunk.SourceDocument{SourceID: name, MediaType: text, Title: text, Filename: &text},
			chunk.File{URL: "https://elsewhere.example/a.png", MediaType: "image/png", Filename: &text}, chunk.Error{Error: text, Code: &text, ErrorDetail: &chunk.ErrorDetail{Message: text, Cause: &text}},
			chunk.ToolInputError{ToolCallID: asked, ToolName: name, Error: text, PartialInput: &data}, chunk.ToolOutputError{ToolCallID: asked, ToolName: name, Error: text},
			chunk.ToolApprovalRequest{ToolCallID: asked, ToolName: name, ApprovalID: asked, Input: data}, chunk.ToolApprovalResponse{ToolCallID: asked, ToolName: name, ApprovalID: asked, Reason: &text},
			chunk.StreamResync{Reason: text}, chunk.Output{Output: data},
			chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "add", Path: "/" + text, Value: &data}}},
		)
	}
	for i, text := range texts {
		short := nameOf(text, 100)
		child, err := run.Child(w.t.Context(), chunk.SubagentStart{SubAgentType: nameOf(text, len(text)), SubSessionID: fmt.Sprint(id, "-", i), CallID: short}, chunk.RunStarted{Mode: "execute", Input: []chunk.InputMessage{{Content: short}}})
		w.must(err)
		w.emit(child, chunk.TextDelta{Delta: short})
		w.must(errors.Join(run.EndChild(w.t.Context(), child, chunk.Value(quote(short))), child.Close()))
	}
	w.emit(run, chunk.SubagentStart{SubAgentType: texts[0], SubSessionID: id, CallID: "c0"}) // itself
	w.end(run)
}

// writeListed writes sessions with hostile titles, owners and errors, and saves their snapshots, of which the list is made.
func (w *env) writeListed() {
	t := w.t
	store, err := jssnapshots.New(w.Server.JetStream(t), jssnapshots.Config{})
	w.must(err)
	for i, text := range hostile {
		run, err := w.producer.Start(t.Context(), session(fmt.Sprint("h", i)), chunk.RunStarted{Mode: "execute", By: &chunk.Principal{Subject: nameOf(text, 100)}, Input: []chunk.InputMessage{{Content: text}}})
		w.must(err)
		w.emit(run, chunk.StepStart{}, chunk.Error{Error: text, Code: &text}, chunk.ToolApprovalRequest{ToolCallID: "c1", ToolName: "t", ApprovalID: "a1", Input: chunk.Value(`{}`)},
			chunk.StepEnd{Model: new("m"), Usage: &chunk.Usage{InputTokens: "9", OutputTokens: "9", Cost: new("0.21"), Currency: new("<b>")}})
		_, err = store.Save(t.Context(), w.Snapshot(session(fmt.Sprint("h", i))), 0)
		w.must(err)
	}
}

// quote returns a JSON string.
func quote(text string) string { return string(rawjson.AppendQuoted(nil, text)) }

// linkTo returns the token of a link to a session, which the edges of these tests do not verify.
func linkTo(id string) string {
	return "eyJ." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"sid":%q,"exp":%d}`, id, time.Now().Add(time.Hour).Unix())) + ".x"
}

// elements are those of which the page is made.
const elements = "a aside button code dd del details dialog div dl dt fieldset form h1 h2 h3 header input ins label legend li main mark nav ol option p pre search section select span strong summary " +
	"table tbody td textarea th thead tr ul"

// unexpected returns what the page has that its source does not make: other elements, handlers in attributes, addresses of scripts, and labels that change the direction
// of what follows.
func unexpected(tab context.Context, t *testing.T) string {
	t.Helper()
	return browsertest.Eval[string](tab, t, fmt.Sprintf(`(() => {
		const known = new Set(%q.split(' '));
		const found = [];
		for (const element of document.querySelectorAll('#app *')) {
			if (!known.has(element.localName)) found.push(element.localName);
			for (const { name, value } of element.attributes) {
				if (name.startsWith('on') || (['href', 'src', 'action', 'formaction', 'srcset'].includes(name) && !/^(\/|#|https?:)/.test(value))) found.push(name + '=' + value.slice(0, 80));
			}
		}
		for (const label of document.querySelectorAll('h1, .whole, .label, .preview')) if (/[\p{Cc}\u202A-\u202E\u2066-\u2069\u2028\u2029]/u.test(label.textContent)) found.push(label.className + ' ' + JSON.stringify(label.textContent));
		if (document.querySelectorAll('script, style').length > 3) found.push('a script or a style'); // a file has its data, its script and its style
		return [...new Set(found)].join(' | ');
	})()`, elements))
}
