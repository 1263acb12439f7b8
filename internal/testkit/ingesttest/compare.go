package ingesttest

import (
	"fmt"
	"strings"

	"github.com/tailrace/tailrace/chunk"
)

// Check compares the log of a session with the run.
func (s *Script) Check(id string, log []chunk.Chunk) error {
	if got, want := flat(log), s.flat(id, len(s.Lines)); got != want {
		return fmt.Errorf("session %s: the log has\n%s\nwant\n%s", id, got, want)
	}
	return nil
}

// CheckReplaced compares the log of a session with the run, whose writer was fenced when at least the first lines were stored, and with the run of the writer that
// has replaced it.
func (s *Script) CheckReplaced(id string, lines int, by *Script, log []chunk.Chunk) error {
	all, last := flat(log), by.flat(id, len(by.Lines))
	first, ok := strings.CutSuffix(all, last)
	if !ok {
		return fmt.Errorf("session %s: the log has\n%s\nwhich does not end with the second run\n%s", id, all, last)
	}
	if least := s.flat(id, lines); !strings.HasPrefix(first, least) {
		return fmt.Errorf("session %s: %d lines of the first run were stored, but the log begins with\n%s\nwant\n%s", id, lines, first, least)
	}
	if whole := s.flat(id, len(s.Lines)); !strings.HasPrefix(whole, first) {
		return fmt.Errorf("session %s: the log has\n%s\nwhich is not the start of the first run\n%s", id, first, whole)
	}
	return nil
}

// flat returns the text of the chunks that the first lines have in a session.
func (s *Script) flat(id string, lines int) string {
	var all []chunk.Chunk
	for _, e := range s.chunks[id] {
		if e.line <= lines {
			all = append(all, e.Chunk)
		}
	}
	return flat(all)
}

// Text returns chunks as text that does not depend on how the log has merged and split their deltas, nor on the time.
func Text(all []chunk.Chunk) string {
	var timeless []chunk.Chunk
	for _, c := range all {
		c.Timestamp = at
		timeless = append(timeless, c)
	}
	return flat(timeless)
}

// flat returns the chunks as text, in which adjacent deltas are one: the text of some lines is a prefix of that of more lines.
func flat(all []chunk.Chunk) string {
	var b strings.Builder
	last, text := "", ""
	for _, c := range all {
		head, piece := split(c)
		if piece != "" && head == last {
			text = chunk.Concat(text, piece)
			continue
		}
		b.WriteString(text + "\n" + head + " ")
		if last, text = head, piece; piece == "" {
			last = ""
		}
	}
	return b.String() + text
}

// split returns the JSON of a chunk without the text of a delta, and the text.
func split(c chunk.Chunk) (head, piece string) {
	switch body := c.Body.(type) {
	case chunk.RunStarted:
		return fmt.Sprintf("run_started of %s %s", c.AgentID, c.AgentType), "" // its id and epoch are those of one execution
	case chunk.TextDelta:
		piece, body.Delta = body.Delta, ""
		c.Body = body
	case chunk.ToolArgStreamDelta:
		piece, body.Delta = body.Delta, ""
		c.Body = body
	case chunk.Thinking:
		if !body.IsComplete {
			piece, body.Content = body.Content, ""
			c.Body = body
		}
	default:
		if c.Type().Control() {
			c.Timestamp = at
		}
	}
	text, err := c.AppendJSON(nil)
	if err != nil {
		panic(err) // of a chunk of a test
	}
	return string(text), piece
}
