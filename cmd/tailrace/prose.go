package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/tailrace/tailrace/chunk"
)

// prosePrinter shows a session as a person would tell it: text runs on, what
// is no text stands on lines of its own, sub-agents are indented under a name.
// Nothing of a chunk reaches the terminal as a control sequence.
type prosePrinter struct {
	out   io.Writer
	root  chunk.Session
	agent string // who spoke last
	kind  chunk.Type
	open  bool // the last line is not ended
}

const (
	dim   = "\x1b[2m"
	bold  = "\x1b[1m"
	red   = "\x1b[31m"
	reset = "\x1b[0m"
)

func (p *prosePrinter) print(rec chunk.Record) error {
	c, err := rec.Decode()
	if err != nil {
		return p.line(rec.Session.ID, red, fmt.Sprintf("record %d: %v", rec.Seq, err))
	}
	agent := rec.Session.ID
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
		return p.line(agent, red, "error: "+b.Error)
	case chunk.StreamFailed:
		return p.line(agent, red, "failed: "+b.Error)
	case chunk.StreamEnd:
		return p.line(agent, dim, "■ end")
	default:
		return p.line(agent, dim, strings.ReplaceAll(string(rec.Type), "_", " "))
	}
}

func (p *prosePrinter) started(agent string, b chunk.RunStarted) error {
	for _, message := range b.Input {
		if err := p.line(agent, bold, "» "+message.Content); err != nil {
			return err
		}
	}
	return p.line(agent, dim, "run "+b.RunID+" ("+b.Mode+")")
}

// flow goes on in the line of the same speaker and kind.
func (p *prosePrinter) flow(agent string, kind chunk.Type, style, text string) error {
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

func (p *prosePrinter) line(agent, style, text string) error {
	prefix := p.newLine() + p.indent(agent)
	p.agent, p.open = agent, false
	_, err := fmt.Fprint(p.out, prefix, style, printable(text), reset, "\n")
	return err
}

func (p *prosePrinter) newLine() string {
	if p.open {
		return "\n"
	}
	return ""
}

func (p *prosePrinter) indent(agent string) string {
	if agent == p.root.ID {
		return ""
	}
	return "    " + dim + agent + " │ " + reset
}

func (p *prosePrinter) end() error {
	_, err := fmt.Fprint(p.out, p.newLine())
	return err
}

// printable drops what could command the terminal: an agent's text is hostile
// input here.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || !unicode.IsControl(r) {
			return r
		}
		return -1
	}, s)
}
