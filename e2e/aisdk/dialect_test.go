//go:build e2e

package aisdk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	dialect "github.com/tailrace/tailrace/codec/aisdk"

	"github.com/tailrace/tailrace/chunk"
)

// clientTool reports whether the page runs a tool in these tests.
func clientTool(name string) bool { return strings.HasPrefix(name, "page_") }

// reading is one turn as clients read it.
type reading struct {
	t         testing.TB
	sdkClient *sdkClient
	log       *log
	turn      turn
	opt       dialect.Options
	name      string
	cuts      []int // numbers of records at which the message is checked
	lax       bool  // the message must be valid, but may have more than the snapshot
}

// turnResponse is the response to one request of a client.
type turnResponse struct {
	response

	first, last int   // the records in it, [first, last) of the log
	at          []int // start of each record's frames in the body
}

// read checks every turn of a log in every way that a client may read it. cuts
// returns the records at which a reader reconnects: every one, or some.
func (j *sdkClient) read(tb testing.TB, name string, l *log, opt dialect.Options, cuts func(n int) []int) {
	tb.Helper()
	j.readAs(tb, name, l, opt, cuts, false)
}

func (j *sdkClient) readAs(tb testing.TB, name string, l *log, opt dialect.Options, cuts func(n int) []int, lax bool) {
	tb.Helper()
	opt.ClientTool = clientTool
	for _, turn := range l.turns() {
		r := reading{t: tb, sdkClient: j, log: l, turn: turn, opt: opt, lax: lax, name: fmt.Sprintf("ai%d, major %d, %s, %s", j.major, opt.Major, name, turn.id)}
		r.cuts = cuts(turn.last - turn.first)
		answers := r.live()
		r.tails(answers)
		r.late(answers)
		if !lax {
			r.history()
		}
		if !lax && len(l.removed) == 0 {
			r.cut(answers[0])
		}
		if len(answers) > 1 && !lax {
			r.page(answers)
		}
		for _, n := range r.cuts {
			r.replay(turn.first+n, answers)
		}
	}
}

// live is a page that follows from the beginning, and continues the message
// whenever the agent waits for input. After every record it must show the same
// as the snapshot.
func (r *reading) live() []turnResponse {
	r.t.Helper()
	m := dialect.New(r.turn.id, r.opt)
	answers := []turnResponse{{first: r.turn.first}}
	resolved := true
	for n := r.turn.first; n < r.turn.last; n++ {
		rec := r.log.records[n]
		a := &answers[len(answers)-1]
		if m.Done() && rec.Session == root && rec.Type == chunk.TypeRunStarted {
			a.answers, resolved = r.answers(n), false
			m.Continue()
			answers = append(answers, turnResponse{first: n})
			a = &answers[len(answers)-1]
		}
		from := len(a.body)
		a.at, a.last = append(a.at, from), n+1
		a.body = m.Append(a.body, rec)
		if err := checkFrames(a.body[from:], rec.Seq, r.opt.Major); err != nil {
			r.t.Errorf("%s, record %d: %v", r.name, n, err)
		}
		// A page has the answers of its user before the log does.
		resolved = resolved || rec.Type == chunk.TypeStepStart && rec.Session == root || m.Done()
		if resolved && (m.Done() || slices.Contains(r.cuts, n+1-r.turn.first)) {
			r.shows(fmt.Sprintf("live, response %d", len(answers)), answers, n+1)
		}
	}
	return answers
}

// page is a complete page with the stock predicates: it sends one request, and
// one more each time its user has answered everything.
func (r *reading) page(answers []turnResponse) {
	r.t.Helper()
	var bodies []any
	for _, a := range answers {
		bodies = append(bodies, map[string]any{"body": a.body})
	}
	page := r.sdkClient.open(r.t, map[string]any{"answers": bodies, "auto": true})
	page.act(r.t, "send", map[string]any{"text": "Hi"})
	asked := 1
	for _, a := range answers {
		for _, given := range a.answers {
			page.answer(r.t, given)
		}
		if len(a.answers) > 0 {
			asked++
		}
	}
	s := page.act(r.t, "rest")
	if s.posts() != asked || len(s.Messages) != 2 {
		r.t.Errorf("%s: %d POSTs and %d messages for %d responses, want one each and two messages: %s", r.name, s.posts(), len(s.Messages), asked, s)
	}
}

// tails are pages that lost their connection after a record and resume on
// another edge with its sequence: they must get the rest of the original
// response.
func (r *reading) tails(answers []turnResponse) {
	r.t.Helper()
	for i, a := range answers {
		for n := a.first; n < a.last-1; n++ {
			m := dialect.New(r.turn.id, r.opt)
			for _, rec := range r.log.records[r.turn.first : n+1] {
				m.Advance(rec)
			}
			tail := []byte{}
			for _, rec := range r.log.records[n+1 : a.last] {
				tail = m.Append(tail, rec)
			}
			if want := a.body[a.at[n+1-a.first]:]; !bytes.Equal(tail, want) {
				r.t.Errorf("%s, response %d, tail after record %d:\n got %s\nwant %s", r.name, i+1, n, tail, want)
				return
			}
		}
	}
}

// history checks that the SDK accepts the messages of a reloaded page.
func (r *reading) history() {
	r.t.Helper()
	messages := []verbatim{verbatim(userHi), r.log.want(r.turn.last, r.turn.id)}
	if strings.Contains(string(messages[1]), `"parts":[]`) {
		return // the SDK rejects a message without parts; the snapshot omits it
	}
	if errs := r.sdkClient.check(r.t, messages); len(errs) > 0 {
		r.t.Errorf("%s: invalid snapshot: %v\n%s", r.name, errs, messages[1])
	}
}

// cut is a page with the real Chat whose connection breaks during its first
// response. It resumes with its cursor and must end as without the break.
func (r *reading) cut(a turnResponse) {
	r.t.Helper()
	n := a.first + (a.last-a.first)/2
	at := a.at[n-a.first]
	if at == 0 || at == len(a.body) {
		return
	}
	page := r.sdkClient.open(r.t, map[string]any{"hook": r.sdkClient.major == 6, "answers": []any{
		map[string]any{"body": a.body[:at], "cut": true}, map[string]any{"body": a.body[at:]},
	}})
	page.act(r.t, "send", map[string]any{"text": "Hi"})
	page.act(r.t, "resume")
	var v foldResult
	messages := []verbatim{verbatim(`{"id":"u","role":"user","parts":[{"type":"text","text":"Hi"}]}`), r.log.want(a.last, r.turn.id)}
	r.sdkClient.ask(r.t, "compare", map[string]any{"chat": page.key, "messages": messages, "portable": r.opt.Major < 7}, &v)
	if v.Difference != "" {
		r.t.Errorf("%s, cut after record %d: %s", r.name, n-1, v.Difference)
	}
}

// late are pages that lost their connection before records that were then
// removed, and reconnect when those are deleted from the log. They never receive
// them, and must end with the message of the snapshot.
func (r *reading) late(answers []turnResponse) {
	r.t.Helper()
	first := slices.IndexFunc(r.log.records[r.turn.first:r.turn.last], func(rec chunk.Record) bool { return r.log.removed[rec.Seq] != 0 })
	if first < 0 || len(answers) > 1 {
		return
	}
	for n := range first {
		m := dialect.New(r.turn.id, r.opt)
		body := slices.Clone(answers[0].body[:answers[0].at[n+1]])
		for _, rec := range r.log.survivors(r.turn.first, r.turn.last) {
			if rec.Seq <= r.log.records[r.turn.first+n].Seq {
				m.Advance(rec)
			} else {
				body = m.Append(body, rec)
			}
		}
		r.shows(fmt.Sprintf("late, after record %d", n), only(body), r.turn.last)
	}
}

// replay is a page that connects without a cursor after n records. It gets the
// whole message and then the further records, to the end of that response.
func (r *reading) replay(n int, answers []turnResponse) {
	r.t.Helper()
	m := dialect.New(r.turn.id, r.opt)
	body := replayOf(m, r.log.survivors(r.turn.first, n))
	if err := checkReplay(body, r.opt.Major); err != nil {
		r.t.Errorf("%s, replay of %d: %v", r.name, n, err)
	}
	r.shows(fmt.Sprintf("replay of %d", n), only(body), n)
	if m.Done() {
		return
	}
	for _, a := range answers {
		if n >= a.last {
			continue
		}
		for _, rec := range r.log.records[n:a.last] {
			body = m.Append(body, rec)
		}
		r.shows(fmt.Sprintf("replay of %d and later records", n), only(body), a.last)
		return
	}
}

// replayOf returns the frames of stored records.
func replayOf(m *dialect.MessageWriter, recs []chunk.Record) []byte {
	r := m.BeginReplay()
	for _, rec := range recs {
		r.FindRemoved(rec)
	}
	return r.Write([]byte{}, func(yield func(chunk.Record, bool) bool) {
		for _, rec := range recs {
			yield(rec, true)
		}
	}, nil)
}

func checkReplay(body []byte, major int) error {
	all, err := frames(body)
	if err != nil {
		return err
	}
	for _, f := range all {
		if f.data == "[DONE]" {
			continue
		}
		if err := checkFields(f.data, major); err != nil {
			return err
		}
	}
	return nil
}

func only(body []byte) []turnResponse { return []turnResponse{{response: response{body: body}}} }

// shows folds the last of the responses and compares the message with that of
// the snapshot over the first n records.
func (r *reading) shows(how string, all []turnResponse, n int) {
	r.t.Helper()
	f := folding{want: r.log.want(n, r.turn.id), portable: r.opt.Major < 7}
	for _, a := range all[:len(all)-1] {
		f.earlier = append(f.earlier, a.response)
	}
	f.body = all[len(all)-1].body
	v := r.sdkClient.fold(r.t, f)
	reported := bytes.Contains(f.body, []byte(`"data-truncated"`)) && !strings.HasPrefix(how, "late") // parts were removed that no chunk can remove
	if (v.Difference == "" || r.lax || reported) && r.expected(v.Errors, n) {
		return
	}
	r.t.Fatalf("%s, %s, after record %d %s: %s %v\nbuilt %s\nwant  %s\nfrom %s", r.name, how, n-1, r.log.records[n-1].Data, v.Difference, v.Errors, v.Message, f.want, f.body)
}

// expected reports whether errors are those of the log: none, or the error that
// ended the message.
func (r *reading) expected(errs []string, n int) bool {
	if len(errs) == 0 {
		return true
	}
	var reported []string
	for _, rec := range r.log.records[r.turn.first:n] {
		if rec.Type != chunk.TypeError && rec.Type != chunk.TypeStreamFailed {
			continue
		}
		var b struct {
			Error string `json:"error"`
		}
		if err := json.Unmarshal(rec.Data, &b); err != nil {
			r.t.Fatal(err)
		}
		reported = append(reported, "Error: "+b.Error)
	}
	return len(errs) == 1 && len(reported) > 0 && slices.Contains(reported, errs[0])
}

// answers returns the answers, in the records from n on, to the calls before:
// decisions on approvals, and the outcomes of client tools.
func (r *reading) answers(n int) []answer {
	r.t.Helper()
	var out []answer
	waiting := make(map[string]bool)
	for _, p := range r.log.snapshot(n).Pending {
		waiting[p.CallID] = true
	}
	for _, rec := range r.log.records[n:r.turn.last] {
		c, err := rec.Decode()
		if err != nil || rec.Session != root {
			continue
		}
		switch b := c.Body.(type) {
		case chunk.ToolApprovalResponse:
			if waiting[b.ToolCallID] {
				out = append(out, answer{ToolCallID: b.ToolCallID, Approved: &b.Approved, Reason: b.Reason})
			}
			delete(waiting, b.ToolCallID)
		case chunk.ToolEnd:
			if waiting[b.ToolCallID] {
				out = append(out, answer{ToolCallID: b.ToolCallID, Output: verbatim(b.Result), ErrorText: b.Error})
			}
			delete(waiting, b.ToolCallID)
		case chunk.StreamPaused, chunk.StreamEnd, chunk.StreamFailed:
			return out
		}
	}
	return out
}

func everywhere(n int) []int {
	var out []int
	for i := range n {
		out = append(out, i+1)
	}
	return out
}
