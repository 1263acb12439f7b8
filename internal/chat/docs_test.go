package chat

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/testkit/chunktest"
	"github.com/tailrace/tailrace/workers"
)

var update = flag.Bool("update", false, "rewrite the responses in docs/reference/chat.md")

const page = "../../docs/reference/chat.md"

// The requests in docs/reference/chat.md, sent in the order of the page, get the responses that the page shows.
func TestThePageMatchesResponses(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(func(cfg *edgeConfig) {
		cfg.Dialect.ClientTool = func(name string) bool { return strings.HasPrefix(name, "page_") }
	})
	w.agents(map[string]workers.Agent{agentType: workers.AgentFunc(support)})
	text := readPage(t)
	blocks := httpBlock.FindAllStringSubmatchIndex(text, -1)
	var out strings.Builder
	var open []*exchange // the last one gets its response first
	done := 0
	for i, at := range blocks {
		block := text[at[2]:at[3]]
		if !strings.HasPrefix(block, "HTTP/1.1 ") {
			open = append(open, e.ask(block, i+1 < len(blocks) && strings.HasPrefix(text[blocks[i+1][2]:], "HTTP/1.1 ")))
			continue
		}
		if len(open) == 0 {
			t.Fatalf("a response without a request\n%s", block)
		}
		last := open[len(open)-1]
		open = open[:len(open)-1]
		got := last.answer(block)
		if got != block && (!*update || !sameStatus(got, block)) {
			t.Errorf("to\n%s\nthe page has\n%s\nthe edge said\n%s", last.sent, block, got)
			got = block
		}
		out.WriteString(text[done:at[2]])
		out.WriteString(got)
		done = at[3]
	}
	if len(open) > 0 || len(blocks) < 20 {
		t.Errorf("%d requests without a response, among %d blocks; want none, and 20 blocks at least", len(open), len(blocks))
	}
	if *update {
		out.WriteString(text[done:])
		if err := os.WriteFile(page, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// sameStatus reports whether a response has the status that the page states. Another one is never written to the page: it is a request that the page has wrong, or a fault.
func sameStatus(got, page string) bool {
	status, _, _ := strings.Cut(got, "\n")
	stated, _, _ := strings.Cut(page, "\n")
	return status == stated
}

func TestSameStatus(t *testing.T) {
	const page = "HTTP/1.1 202 Accepted\nContent-Type: text/plain\n\n1\n"
	for got, want := range map[string]bool{
		"HTTP/1.1 202 Accepted\n\n2\n": true, "HTTP/1.1 202 Accepted\n": true, "HTTP/1.1 400 Bad Request\nContent-Type: text/plain\n\n1\n": false, "": false,
	} {
		if sameStatus(got, page) != want {
			t.Errorf("%q: want %t", got, want)
		}
	}
}

var httpBlock = regexp.MustCompile("(?s)```http run=TestThePageMatchesResponses\n(.*?)```")

// support is the agent that the page describes.
func support(ctx context.Context, t *workers.Turn) error {
	first := t.Steps() == 0
	if first && strings.Contains(t.Input()[0].Content, "story") {
		if err := t.Step(ctx, func(ctx context.Context, s *workers.Step) error { return s.Text(ctx, "Once upon a time ") }); err != nil {
			return err
		}
	}
	return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
		switch text := t.Input()[len(t.Input())-1].Content; {
		case strings.Contains(text, "both") && first:
			if err := s.Tool("call_1", "page_time_zone").AskClient(ctx, struct{}{}, time.Time{}); err != nil {
				return err
			}
			return s.Tool("call_2", "page_language").AskClient(ctx, struct{}{}, time.Time{})
		case strings.Contains(text, "clock") && first:
			return s.Tool("call_1", "page_time_zone").AskClient(ctx, struct{}{}, time.Time{})
		case strings.Contains(text, "clock"):
			s.MarkFinal()
			return s.Text(ctx, "It is noon in Bern.")
		case strings.Contains(text, "cancel") && first:
			return s.Tool("call_2", "cancel_order").AskApproval(ctx, map[string]int{"order": 17}, time.Time{})
		case strings.Contains(text, "cancel"):
			s.MarkFinal()
			for _, call := range s.ApprovedCalls() {
				if err := call.End(ctx, "cancelled"); err != nil {
					return err
				}
			}
			return s.Text(ctx, "Order 17 is cancelled.")
		case strings.Contains(text, "fail"):
			if err := s.Text(ctx, "Let me see."); err != nil {
				return err
			}
			return &workers.Error{Message: "The model is on strike.", Code: "provider_unavailable", Cause: errors.New("strike")}
		case strings.Contains(text, "story"):
			if err := s.Text(ctx, "there was a parcel, "); err != nil {
				return err
			}
			if err := s.Emit(ctx, chunk.SourceURL{SourceID: "s1", URL: "https://parcel.example/17"}); err != nil {
				return err
			}
			<-ctx.Done() // the client stops the run
			return context.Cause(ctx)
		}
		s.MarkFinal()
		return s.Text(ctx, "It is in Bern.")
	})
}

// exchange is a request of the page that was sent.
type exchange struct {
	t    testing.TB
	sent string
	resp *http.Response
	body *bufio.Reader
	read bytes.Buffer
}

// ask sends a request of the page. If its response comes later on the page, ask returns as soon as the agent waits.
func (e *edge) ask(block string, whole bool) *exchange {
	e.t.Helper()
	head, body, _ := strings.Cut(block, "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	method, path, _ := strings.Cut(lines[0], " ")
	header := make(http.Header)
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		header.Set(name, value)
	}
	e.base = path
	resp, err := e.try(method, "", body, header)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { resp.Body.Close() })
	a := &exchange{t: e.t, sent: block, resp: resp, body: bufio.NewReader(resp.Body)}
	for !whole {
		line := must(a.body.ReadString('\n'))(e.t)
		a.read.WriteString(line)
		if strings.Contains(line, `"source-url"`) {
			break
		}
	}
	return a
}

// answer returns the response in the form of the page: with the headers that the page shows, the members of JSON, and without data that the page omits.
func (a *exchange) answer(block string) string {
	a.t.Helper()
	if _, err := io.Copy(&a.read, a.body); err != nil {
		a.t.Error(err)
	}
	head, body, _ := strings.Cut(block, "\n\n")
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %s\n", a.resp.Status)
	for _, line := range strings.Split(strings.TrimSpace(head), "\n")[1:] {
		name, _, _ := strings.Cut(line, ": ")
		fmt.Fprintf(&b, "%s: %s\n", name, a.resp.Header.Get(name))
	}
	got := moments.ReplaceAllString(a.read.String(), "1700000000123")
	got = checkpoints.ReplaceAllString(got, "-t1700000000123-0a1b2c")
	got = chunktest.WithoutAnchors(got)
	if got == "" {
		return b.String()
	}
	b.WriteString("\n")
	if a.resp.Header.Get("Content-Type") == "application/json" && shows(got, body) {
		got = body
	}
	if !strings.Contains(body, "stream-open") {
		got = asides.ReplaceAllString(got, "")
	}
	b.WriteString(strings.TrimSpace(got) + "\n")
	return b.String()
}

// moments matches times in milliseconds, which differ each time.
var moments = regexp.MustCompile(`\b1[6-9]\d{11}\b`)

// checkpoints matches the ends of checkpoint ids, a time and random digits.
var checkpoints = regexp.MustCompile(`-t\d{13}-[0-9a-f]{6}\b`)

// asides matches data that the page shows once and omits afterwards.
var asides = regexp.MustCompile(`: stream-open\n\n|(id: \d+\n)?data: \{"type":"data-(checkpoint-created|step-committed|run-paused|run-resumed)",.*\n\n`)

// shows reports whether each member on the page is in the response, with the same value.
func shows(got, page string) bool {
	var a, b any
	return json.Unmarshal([]byte(page), &b) == nil && json.Unmarshal([]byte(got), &a) == nil && holds(a, b)
}

func holds(got, page any) bool {
	switch page := page.(type) {
	case map[string]any:
		all, ok := got.(map[string]any)
		for name, want := range page {
			value, known := all[name]
			ok = ok && known && holds(value, want)
		}
		return ok
	case []any:
		all, ok := got.([]any)
		ok = ok && len(all) == len(page)
		for i := range page {
			ok = ok && holds(all[i], page[i])
		}
		return ok
	}
	return reflect.DeepEqual(got, page)
}

// shows detects each difference.
func TestShows(t *testing.T) {
	const got = `{"a":[{"b":1,"c":2}],"d":null}`
	for page, want := range map[string]bool{
		`{}`: true, `{"a":[{"b":1}]}`: true, `{"d":null}`: true, got: true,
		`{"a":[]}`: false, `{"a":[{"b":2}]}`: false, `{"e":null}`: false, `{"a":[{"b":1},{}]}`: false, `[]`: false, ``: false,
	} {
		if shows(got, page) != want {
			t.Errorf("%s shows %s: want %t", page, got, want)
		}
	}
}

// Every refusal is in the table of the page, with its status, and the table has no others.
func TestThePageListsRefusals(t *testing.T) {
	got := make(map[string]bool)
	for _, row := range regexp.MustCompile("(?m)^\\| (\\d{3}) \\| ((?:`[A-Z_]+`(?:, )?)+) \\|").FindAllStringSubmatch(readPage(t), -1) {
		for code := range strings.SplitSeq(row[2], ", ") {
			got[row[1]+" "+strings.Trim(code, "`")] = true
		}
	}
	want := make(map[string]bool)
	for _, p := range []*httpkit.Problem{
		badID, badSession, badCursor, httpkit.BodyUnreadable, httpkit.BodyTooLarge, inputTooLarge, httpkit.UnsupportedMedia, httpkit.CrossOrigin, httpkit.NotFound, noChat,
		otherAgent, unknownAgent, running, delegating, changed, noMessage, streamLost, notStreaming, unavailable, contended, draining,
		httpkit.Internal, httpkit.EdgePermission, httpkit.NoStorage, httpkit.TenantRuns, stillRunning, unknownCall, queueFull, notQueued, wrongKind, wrongID, httpkit.TooManyBodies, httpkit.TooManyReads, httpkit.BodyTimeout,
		httpkit.EdgeLimit, httpkit.TenantLimit, httpkit.AddressLimit, httpkit.SessionLimit, {Status: http.StatusMethodNotAllowed, Code: httpkit.CodeMethod},
		httpkit.AddressRate, httpkit.SubjectRate, httpkit.TenantRate,
		problems[conversation.ReasonAnswered], problems[conversation.ReasonWrongInput], problems[conversation.ReasonExpired], problems[conversation.ReasonFull],
	} {
		want[fmt.Sprint(p.Status, " ", p.Code)] = true
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the page has\n%v\nwe have\n%v", got, want)
	}
}

// Every reason of a rejection, every limit and every path is on the page.
func TestThePageIsComplete(t *testing.T) {
	text := readPage(t)
	var words []string
	for reason, sentence := range conversation.RejectionTexts {
		words = append(words, "| `"+string(reason)+"` | "+sentence+" |")
	}
	for _, route := range new(Service).routes() {
		words = append(words, "`"+route.Method+" "+route.Path+"`")
	}
	for _, code := range []string{control.CodeDeadline, control.CodeAbandoned, control.CodeToolFailed} {
		words = append(words, "`"+code+"`")
	}
	logic := newEnv(t).newEdge(nil).service.logic
	words = append(words,
		fmt.Sprintf("| %d MiB |", defaultMaxBody>>20), fmt.Sprintf("| %d KiB of JSON |", conversation.MaxRecord>>10),
		fmt.Sprintf("| %d KiB |", aisdk.MaxInputMetadata>>10), fmt.Sprintf("| %d characters |", dialect.MaxID),
		fmt.Sprintf("| %d |", aisdk.MaxInputTurn), fmt.Sprintf("| %d |", conversation.MaxDepth), fmt.Sprintf("| %d |", aisdk.MaxInputMessages),
		fmt.Sprintf("| %g seconds |", logic.RequestTimeout().Seconds()))
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("the page does not have %s", word)
		}
	}
}

func readPage(t *testing.T) string {
	t.Helper()
	return string(must(os.ReadFile(page))(t))
}
