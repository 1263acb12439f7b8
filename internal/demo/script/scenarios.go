package script

import (
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// The scenes of the scenarios. Each ends its last step, so that they can be combined.

func (p *scriptBuilder) plain() {
	p.wait(300 * time.Millisecond)
	p.text(prose("plain"))
	p.step("stop")
}

func (p *scriptBuilder) long() {
	for _, chapter := range chapters(prose("long")) {
		p.wait(200 * time.Millisecond)
		p.text(chapter)
		p.step("stop")
	}
}

func (p *scriptBuilder) thinking() {
	p.wait(400 * time.Millisecond)
	p.thought(prose("cities_think1"))
	p.text(prose("cities_answer1"))
	p.step("stop")
	p.thought(prose("cities_think2"))
	p.text(prose("cities_answer2"))
	p.step("stop")
}

func (p *scriptBuilder) toolArgs() {
	p.text(prose("note_before"))
	id := p.streamedTool("write_note", map[string]any{
		"title":    "Porto, or rather Valencia",
		"lines":    []string{"Train to the airport: 7:12", "Bring: towel, book, a little patience", "Dinner at nine, not before 🍽️"},
		"reminder": map[string]any{"weekday": "Friday", "at": "09:00", "repeat": false},
		"budget":   9007199254740993, // not representable as a float64: it must be preserved
	})
	p.wait(500 * time.Millisecond)
	p.result(id, "write_note", map[string]any{"saved": true, "noteId": "n-1042", "bytes": 214})
	p.step("tool-calls")
	p.text(prose("note_after"))
	p.step("stop")
}

func (p *scriptBuilder) parallel() {
	p.text(prose("parallel_before"))
	cities := []string{"Lisbon", "Kyoto", "Reykjavík"}
	ids, args := make([]string, len(cities)), make([][]string, len(cities))
	for i, city := range cities {
		ids[i] = p.call()
		args[i] = p.tokens(string(value(map[string]any{"city": city, "days": 3, "units": "metric"})))
		p.say(chunk.ToolArgStreamStart{ToolCallID: ids[i], ToolName: "get_forecast"})
	}
	p.interleave(ids, args)
	for i, city := range cities {
		p.chunk(chunk.ToolArgStreamEnd{ToolCallID: ids[i]})
		p.chunk(chunk.ToolStart{ToolCallID: ids[i], ToolName: "get_forecast", Arguments: value(map[string]any{"city": city, "days": 3, "units": "metric"})})
	}
	p.wait(400 * time.Millisecond)
	p.result(ids[2], "get_forecast", map[string]any{"celsius": []int{4, 3, 5}, "sky": "wind 風"}) //nolint:gosmopolitan // shows other scripts
	p.wait(500 * time.Millisecond)
	p.result(ids[0], "get_forecast", map[string]any{"celsius": []int{19, 20, 19}, "sky": "sunny ☀️"})
	p.wait(700 * time.Millisecond)
	p.result(ids[1], "get_forecast", map[string]any{"celsius": []int{14, 16, 15}, "sky": "cherry blossom 🌸"})
	p.step("tool-calls")
	p.text(prose("parallel_after"))
	p.step("stop")
}

// interleave streams the arguments of several calls alternately.
func (p *scriptBuilder) interleave(ids []string, args [][]string) {
	for round, more := 0, true; more; round++ {
		more = false
		for i := range ids {
			if round < len(args[i]) {
				p.say(chunk.ToolArgStreamDelta{ToolCallID: ids[i], Delta: args[i][round]})
				more = true
			}
		}
	}
}

func (p *scriptBuilder) failing() {
	p.text(prose("failing_before"))
	bad := p.call()
	p.say(chunk.ToolArgStreamStart{ToolCallID: bad, ToolName: "book_table"})
	for _, token := range p.tokens(`{"people":4,"date":"32 May"`) {
		p.say(chunk.ToolArgStreamDelta{ToolCallID: bad, Delta: token})
	}
	p.chunk(chunk.ToolArgStreamEnd{ToolCallID: bad})
	p.chunk(chunk.ToolInputError{
		ToolCallID: bad, ToolName: "book_table", Error: `date: want a day of the calendar, got "32 May"`,
		PartialInput: new(value(map[string]any{"people": 4, "date": "32 May"})),
	})
	p.failure(bad, "book_table", "the input is not valid", "validation_error")
	p.step("tool-calls")

	asleep := p.tool("book_table", map[string]any{"people": 4, "date": "2031-05-15", "time": "19:30"})
	p.wait(900 * time.Millisecond)
	p.chunk(chunk.ToolOutputError{ToolCallID: asleep, ToolName: "book_table", Error: "no answer from the restaurant after 900 ms"})
	p.failure(asleep, "book_table", "the restaurant did not answer", "tool_execution_failed")
	p.chunk(chunk.Error{
		Error: "the booking service is overloaded", Code: new("provider_overloaded"), Recoverable: true,
		ErrorDetail: &chunk.ErrorDetail{
			Message: "503 from bookings.example", Code: new("provider_overloaded"), Category: new("provider"),
			Cause: new("Retry-After: 1"), Retryable: new(true),
		},
	})
	p.text(prose("failing_middle"))
	p.step("tool-calls")

	p.wait(600 * time.Millisecond)
	good := p.tool("book_table", map[string]any{"people": 4, "date": "2031-05-15", "time": "19:30"})
	p.wait(500 * time.Millisecond)
	p.result(good, "book_table", map[string]any{"booking": "BK-77", "table": "by the window"})
	p.text(prose("failing_after"))
	p.step("stop")
}

func (p *scriptBuilder) planning() {
	p.text(prose("state_before"))
	p.state(put("add", "/trip", map[string]any{
		"city": "Lisbon", "nights": 2, "hotel": "Harbour Inn",
		"days": map[string]any{"saturday": []string{"museum", "viewpoint"}, "sunday": []string{"market"}},
	}))
	p.state(put("add", "/scratch", "ask about the museum's opening hours"))
	p.text(prose("state_middle"))
	p.state(put("test", "/trip/hotel", "Harbour Inn"), put("replace", "/trip/hotel", "Casa da Colina"))
	p.state(chunk.PatchOp{Op: "move", From: new("/trip/days/saturday/0"), Path: "/trip/days/sunday/-"})
	p.step("stop")
	p.state(put("add", "/trip/days/saturday/-", "long walk to Belém"))
	p.state(chunk.PatchOp{Op: "copy", From: new("/trip/nights"), Path: "/trip/breakfasts"})
	p.state(chunk.PatchOp{Op: "remove", Path: "/scratch"})
	p.text(prose("state_after"))
	p.step("stop")
}

func (p *scriptBuilder) sources() {
	p.custom("progress", map[string]any{"label": "Reading", "done": 1, "of": 3})
	p.chunk(chunk.SourceURL{SourceID: "src-1", URL: "https://example.org/readers-and-bookmarks", Title: new("Readers and bookmarks: a field study")})
	p.wait(300 * time.Millisecond)
	p.custom("progress", map[string]any{"label": "Reading", "done": 2, "of": 3})
	p.chunk(chunk.SourceURL{SourceID: "src-2", URL: "https://example.org/tunnels"})
	p.wait(300 * time.Millisecond)
	p.custom("progress", map[string]any{"label": "Reading", "done": 3, "of": 3})
	p.chunk(chunk.SourceDocument{SourceID: "src-3", MediaType: "application/pdf", Title: "How long is a tunnel?", Filename: new("tunnels.pdf")})
	p.text(prose("sources_before"))
	p.step("stop")
	p.wait(500 * time.Millisecond)
	p.chunk(chunk.File{URL: chart, MediaType: "image/svg+xml", Filename: new("absences.svg")})
	p.text(prose("sources_after"))
	p.chunk(chunk.Output{Output: value(map[string]any{"medianSeconds": 11, "p99Seconds": 58, "sources": []string{"src-1", "src-2", "src-3"}})})
	p.step("stop")
}

func (p *scriptBuilder) approval() {
	p.text(prose("approval_before"))
	p.decided("delete_drafts", map[string]any{"count": 7}, true, "up to ten drafts may go")
	p.step("tool-calls")
	p.decided("delete_invoices", map[string]any{"count": 40}, false, "invoices are kept for ten years")
	p.text(prose("approval_after"))
	p.step("stop")
}

func (p *scriptBuilder) asking() {
	p.text(prose("asking_before"))
	p.act(Action{After: p.tokenDelay(), Approve: &Approval{ID: p.call(), Tool: "delete_files", Input: value(map[string]any{"files": []string{"draft-1.md", "draft-2.md", "draft-3.md"}})}})
	p.step("tool-calls")
	p.text(prose("asking_after"))
	p.step("stop")
}

// decided is a call that a rule approves or denies without a user.
func (p *scriptBuilder) decided(tool string, input map[string]any, approved bool, reason string) {
	id := p.tool(tool, input)
	approval := p.agent.RunID + "::" + id
	p.chunk(chunk.ToolApprovalRequest{ToolCallID: id, ToolName: tool, ApprovalID: approval, Input: value(input), IsAutomatic: new(true)})
	p.wait(700 * time.Millisecond)
	p.chunk(chunk.ToolApprovalResponse{ToolCallID: id, ToolName: tool, ApprovalID: approval, Approved: approved, Reason: &reason, IsAutomatic: new(true)})
	if !approved {
		p.failure(id, tool, "refused: "+reason, "client_tool_denied")
		return
	}
	p.wait(400 * time.Millisecond)
	p.result(id, tool, map[string]any{"deleted": input["count"]})
}

func (p *scriptBuilder) tour() {
	p.text(prose("tour_hello"))
	p.halves('🌊')
	p.text("\n\n")
	p.step("stop")
	p.thinking()
	p.toolArgs()
	p.parallel()
	p.failing()
	p.subagents()
	p.planning()
	p.sources()
	p.approval()
	p.lifecycle()
	p.text(prose("tour_bye"))
	p.step("stop")
}
