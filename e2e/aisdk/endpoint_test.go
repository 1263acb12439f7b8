//go:build e2e

package aisdk

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	dialect "github.com/tailrace/tailrace/codec/aisdk"

	"github.com/tailrace/tailrace/agents/httpagent"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/workers"
)

// endpoint is a chat route whose responses are given, behind a worker and an edge.
type endpoint struct {
	*env

	edge      string              // URL
	responses map[string][]string // parts, by session
}

func newEndpoint(t *testing.T) *endpoint {
	t.Helper()
	w := prepareEnv(t, dialect.Options{})
	w.Stack = stack.Start(t, stack.Options{})
	e := &endpoint{env: w, responses: make(map[string][]string)}
	route := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = rw.Write(sse(e.responses[r.Header.Get("Tailrace-Session")]...)) // the worker reports a lost connection
	}))
	t.Cleanup(route.Close)
	agent, err := httpagent.New(httpagent.Config{URL: route.URL, Log: w.log})
	w.must(err)
	p := w.NewProcess(natsauth.Worker)
	worker, err := workers.New(p.JS, workers.Config{Agents: map[string]workers.Agent{"actor": agent}, Pace: time.Millisecond, Log: w.log})
	w.must(err)
	p.Go(worker.Run)
	clients := stack.NewClients(t, w.NewProcess(natsauth.Edge).JS)
	edge, err := httpedge.New(clients.Log, noSnapshots{}, httpedge.Config{Authenticator: authtest.None(t, "default"), Log: w.log})
	w.must(err)
	e.edge = w.Serve(edge, edge.Run).URL
	return e
}

// run lets the agent answer with parts, and returns what an edge writes of it and the message that a page loads.
func (e *endpoint) run(t *testing.T, id string, parts []string) (stream, loaded []byte) {
	t.Helper()
	e.responses[id] = parts
	s := chunk.RootSession("default", id)
	e.Request(control.Command{Kind: control.Execute, Session: s, AgentType: "actor", RunID: "r1", Input: []chunk.InputMessage{{Content: "Hi"}}, Issued: time.Now()})
	snap := e.Await(s, "the end of the answer", func(s fold.Snapshot) bool { return s.Run.ID == "r1" && s.Status != fold.Active })
	res, err := http.Get(e.edge + "/v1/sessions/" + id + "/events?dialect=aisdk")
	e.must(err)
	defer res.Body.Close()
	stream, err = io.ReadAll(res.Body)
	e.must(err)
	list := dialect.Snapshot(snap, dialect.SnapshotOptions{Partial: true}).Messages
	return stream, list[len(list)-1].AppendJSON(nil)
}

// route writes random responses of a server of the AI SDK, with every member that a part may have.
type route struct {
	*rand.Rand

	n int // of blocks and calls
}

func (r *route) maybe(member string) string {
	if r.IntN(3) > 0 {
		return ""
	}
	return "," + member
}

func (r *route) meta() string {
	return r.maybe(fmt.Sprintf(`"providerMetadata":{"p":{"n":%d,"s":"%d"}}`, r.IntN(3), r.n))
}

func (r *route) metadata() string {
	return r.maybe(fmt.Sprintf(`"messageMetadata":{"a%d":{"b%d":[%d]},"c":%d}`, r.IntN(2), r.IntN(2), r.n, r.IntN(9)))
}

// response returns the parts of a response in some steps.
func (r *route) response() []string {
	parts := []string{`{"type":"start","messageId":"theirs"` + r.metadata() + `}`}
	for range 1 + r.IntN(3) {
		parts = append(parts, `{"type":"start-step"}`)
		for range 1 + r.IntN(6) {
			parts = append(parts, r.block()...)
		}
		parts = append(parts, r.text("text", true)...) // a step without output has no place in the log
		parts = append(parts, `{"type":"finish-step"}`)
		if m := r.metadata(); m != "" {
			parts = append(parts, `{"type":"message-metadata"`+m+`}`)
		}
	}
	if r.IntN(4) == 0 { // the browser runs the last call
		parts = slices.Insert(parts, len(parts)-1, r.call(false)...)
	}
	return append(parts, `{"type":"finish","finishReason":"stop"`+r.metadata()+`}`)
}

func (r *route) block() []string {
	r.n++
	switch r.IntN(8) {
	case 0, 1:
		return r.text("text", r.IntN(4) > 0)
	case 2:
		return r.text("reasoning", r.IntN(3) > 0)
	case 3, 4:
		return r.call(true)
	case 5:
		return []string{[]string{
			fmt.Sprintf(`{"type":"source-url","sourceId":"s%d","url":"https://u"%s%s}`, r.n, r.maybe(`"title":"T"`), r.meta()),
			fmt.Sprintf(`{"type":"source-document","sourceId":"s%d","mediaType":"text/plain","title":"T"%s%s}`, r.n, r.maybe(`"filename":"f"`), r.meta()),
			`{"type":"file","url":"data:,x","mediaType":"text/plain"` + r.meta() + `}`,
		}[r.IntN(3)]}
	}
	name := []string{"progress", "note"}[r.IntN(2)]
	return []string{fmt.Sprintf(`{"type":"data-%s","data":{"n":%d}%s%s}`, name, r.n, r.maybe(fmt.Sprintf(`"id":"d%d"`, r.IntN(2))), r.maybe(`"transient":true`))}
}

// text returns a text or reasoning, and sometimes data in the middle.
func (r *route) text(kind string, some bool) []string {
	r.n++
	id := fmt.Sprintf(`"id":"%s%d"`, kind[:1], r.IntN(3)) // ids are used again
	parts := []string{fmt.Sprintf(`{"type":"%s-start",%s%s}`, kind, id, r.meta())}
	for range r.IntN(3) {
		parts = append(parts, fmt.Sprintf(`{"type":"%s-delta",%s,"delta":%s%s}`, kind, id, []string{`"word "`, `""`, `"\n\u00e9"`}[r.IntN(3)], r.meta()))
	}
	if some {
		parts = append(parts, fmt.Sprintf(`{"type":"%s-delta",%s,"delta":"%d."}`, kind, id, r.n))
		if r.IntN(4) == 0 {
			parts = append(parts, `{"type":"data-note","data":1}`, fmt.Sprintf(`{"type":"%s-delta",%s,"delta":"end"}`, kind, id))
		}
	}
	return append(parts, fmt.Sprintf(`{"type":"%s-end",%s%s}`, kind, id, r.meta()))
}

// call returns a call with its outcome, or one that the browser runs.
func (r *route) call(outcome bool) []string {
	r.n++
	id, name := fmt.Sprintf(`"toolCallId":"c%d"`, r.n), fmt.Sprintf(`,"toolName":"tool%d"`, r.IntN(3))
	flags := r.maybe(`"dynamic":true`) + r.maybe(`"title":"A tool"`)
	more := r.meta() + r.maybe(`"toolMetadata":{"icon":"x"}`)
	var parts []string
	if r.IntN(2) == 0 {
		parts = append(parts, `{"type":"tool-input-start",`+id+name+flags+`}`, `{"type":"tool-input-delta",`+id+`,"inputTextDelta":"{\"q\":"}`, `{"type":"tool-input-delta",`+id+`,"inputTextDelta":"1}"}`)
	}
	if outcome && r.IntN(6) == 0 {
		return append(parts, `{"type":"tool-input-error",`+id+name+flags+more+`,"input":{"q":"x"},"errorText":"bad"}`)
	}
	parts = append(parts, `{"type":"tool-input-available",`+id+name+flags+more+`,"input":{"q":1}}`)
	if !outcome {
		return parts
	}
	for n := range r.IntN(3) {
		parts = append(parts, fmt.Sprintf(`{"type":"tool-output-available",%s,"output":%d,"preliminary":true}`, id, n))
	}
	if r.IntN(4) == 0 {
		return append(parts, `{"type":"tool-output-error",`+id+`,"errorText":"broken"`+r.meta()+`}`)
	}
	return append(parts, `{"type":"tool-output-available",`+id+`,"output":[2]`+r.meta()+`}`)
}

// shownTo returns a message as a page has it, without the differences that docs/guides/http-agent.md lists.
func shownTo(t *testing.T, message []byte) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(message, &m); err != nil {
		t.Fatalf("%s: %v", message, err)
	}
	delete(m, "id")
	var parts []any
	for _, p := range m["parts"].([]any) { //nolint:forcetypeassert // of a message
		p := p.(map[string]any) //nolint:forcetypeassert // likewise
		if p["text"] == "" && p["providerMetadata"] == nil {
			continue
		}
		if p["type"] == "reasoning" {
			delete(p, "id")
		}
		delete(p, "providerExecuted")
		if raw, ok := p["rawInput"]; ok && p["state"] == "output-error" { // version 6; later ones have it in input
			delete(p, "rawInput")
			p["input"] = raw
		}
		parts = append(parts, p)
	}
	if n := len(parts) - 1; reflect.DeepEqual(parts[n], map[string]any{"type": "step-start"}) {
		parts = parts[:n]
	}
	m["parts"] = parts
	return m
}

// A page that follows the log has the message that the route itself would have given to it, and so has a page that is loaded.
func TestEndpointMessages(t *testing.T) {
	e := newEndpoint(t)
	bothMajors(t, func(t *testing.T, j *sdkClient) {
		t.Helper()
		seed := seedtest.Seed(t)
		for n := range *logs {
			r := &route{Rand: rand.New(rand.NewPCG(seed, uint64(n)))}
			parts := r.response()
			direct := j.fold(t, folding{body: sse(parts...)})
			stream, loaded := e.run(t, fmt.Sprintf("major%d-log%d", j.major, n), parts)
			through := j.fold(t, folding{body: stream})
			if len(direct.Errors) > 0 || len(through.Errors) > 0 {
				t.Fatalf("-seed %d, log %d: errors %v and %v of\n%s\n%s", seed, n, direct.Errors, through.Errors, strings.Join(parts, "\n"), stream)
			}
			want := shownTo(t, direct.Message)
			for what, got := range map[string][]byte{"followed": through.Message, "loaded": loaded} {
				if got := shownTo(t, got); !reflect.DeepEqual(got, want) {
					t.Fatalf("-seed %d, log %d: %s\n%s\nwant\n%s\nof\n%s\nwhich became\n%s", seed, n, what, indented(t, got), indented(t, want), strings.Join(parts, "\n"), stream)
				}
			}
			if got, want := dataOf(through.Chunks), dataOf(direct.Chunks); !slices.Equal(got, want) {
				t.Fatalf("-seed %d, log %d: data %v, want %v", seed, n, got, want)
			}
		}
	})
}

// dataOf returns the data parts of the application, also those that are not in the message.
func dataOf(chunks []string) []string {
	return slices.DeleteFunc(slices.Clone(chunks), func(c string) bool { return c != "data-progress" && c != "data-note" })
}

func indented(t *testing.T, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
