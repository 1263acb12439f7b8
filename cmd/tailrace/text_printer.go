package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/tailrace/tailrace/chunk"
)

// textPrinter prints a session as text: text deltas are joined, other chunks
// are printed on separate lines, sub-agents are indented under a name. No
// control sequence of a chunk reaches the terminal.
type textPrinter struct {
	out   io.Writer
	root  chunk.Session
	agent string // of the last record
	kind  chunk.Type
	open  bool // the last line is not ended

	verbose bool // sequence and time before each record
}

const (
	dim   = "\x1b[2m"
	bold  = "\x1b[1m"
	red   = "\x1b[31m"
	reset = "\x1b[0m"
)

func (p *textPrinter) print(rec chunk.Record) error {
	c, err := rec.Decode()
	if err != nil {
		return p.line(rec.Session.ID, red, fmt.Sprintf("record %d: %v", rec.Seq, err))
	}
	agent := rec.Session.ID
	if p.verbose {
		if err := p.line(agent, dim, fmt.Sprintf("%d %s %s", rec.Seq, rec.StoredAt.UTC().Format(time.RFC3339Nano), rec.Type)); err != nil {
			return err
		}
	}
	switch b := c.Body.(type) {
	case chunk.TextDelta:
		return p.flow(agent, rec.Type, "", b.Delta)
	case chunk.Thinking:
		return p.flow(agent, rec.Type, dim, b.Content)
	case chunk.ToolArgStreamDelta:
		return p.flow(agent, rec.Type, dim, b.Delta)
	case chunk.ToolArgStreamStart:
		return p.line(agent, bold, "→ "+b.ToolName+" …")
	case chunk.ToolStart:
		return p.line(agent, bold, "→ "+b.ToolName+" "+string(b.Arguments))
	case chunk.ToolEnd:
		if b.Error != nil {
			return p.line(agent, red, "✗ "+b.ToolName+": "+*b.Error)
		}
		return p.line(agent, "", "← "+b.ToolName+" "+string(b.Result))
	case chunk.SubagentStart:
		return p.line(agent, bold, "⇒ sub-agent "+b.SubAgentType+" in session "+b.SubSessionID)
	case chunk.SubagentEnd:
		return p.line(agent, bold, "⇐ sub-agent "+b.SubAgentType+" "+string(b.Result))
	case chunk.RunStarted:
		return p.started(agent, b)
	case chunk.Error:
		return p.line(agent, red, "error: "+errorText(b.Error, b.ErrorDetail))
	case chunk.StreamFailed:
		return p.line(agent, red, "failed: "+errorText(b.Error, b.ErrorDetail))
	case chunk.StreamEnd:
		return p.line(agent, dim, "■ end")
	default:
		return p.line(agent, dim, strings.ReplaceAll(string(rec.Type), "_", " "))
	}
}

// errorText adds to the text of an error what its detail has in addition: the message, and the cause.
func errorText(text string, d *chunk.ErrorDetail) string {
	if d == nil {
		return text
	}
	if !strings.Contains(text, d.Message) {
		text += ": " + d.Message
	}
	if d.Cause != nil && !strings.Contains(text, *d.Cause) {
		text += ": " + *d.Cause
	}
	return text
}

func (p *textPrinter) started(agent string, b chunk.RunStarted) error {
	for _, message := range b.Input {
		if err := p.line(agent, bold, "» "+message.Content); err != nil {
			return err
		}
	}
	return p.line(agent, dim, "run "+b.RunID+" ("+b.Mode+")")
}

// flow continues the line if agent and kind are unchanged.
func (p *textPrinter) flow(agent string, kind chunk.Type, style, text string) error {
	if text == "" {
		return nil
	}
	prefix := ""
	if agent != p.agent || kind != p.kind || !p.open {
		prefix = p.newLine() + p.indent(agent)
	}
	p.agent, p.kind, p.open = agent, kind, true
	text = strings.ReplaceAll(printable(text), "\n", "\n"+p.indent(agent))
	_, err := fmt.Fprint(p.out, prefix, style, text, reset)
	return err
}

func (p *textPrinter) line(agent, style, text string) error {
	prefix := p.newLine() + p.indent(agent)
	p.agent, p.open = agent, false
	_, err := fmt.Fprint(p.out, prefix, style, printable(text), reset, "\n")
	return err
}

func (p *textPrinter) newLine() string {
	if p.open {
		return "\n"
	}
	return ""
}

func (p *textPrinter) indent(agent string) string {
	if agent == p.root.ID {
		return ""
	}
	return "    " + dim + agent + " │ " + reset
}

func (p *textPrinter) end() error {
	_, err := fmt.Fprint(p.out, p.newLine())
	return err
}

// printable removes control characters, because the text of an agent is hostile
// input.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || !unicode.IsControl(r) {
			return r
		}
		return -1
	}, s)
}
