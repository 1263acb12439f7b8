package ingestion

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/nearest"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// Base has the members that a native line may leave out.
type Base struct {
	AgentID   string
	AgentType string
	Timestamp int64
	Step      int64
}

// Outline is what is found out about a native line before it is decoded.
type Outline struct {
	text []byte
	open int // the offset behind the brace

	Type    chunk.Type
	AgentID string // "" if it is left out

	hasID, hasType, hasTime, hasStep, hasStream bool
	empty                                       bool
}

// Outlined reads the outline of a line. ok is false for text that is not an object, which chunk.Decode refuses.
func Outlined(text []byte) (o Outline, ok bool) {
	o.text, o.empty = text, true
	_, ok = rawjson.ScanObject(text, rawjson.Limits{Levels: chunk.MaxDepth}, func(name, value rawjson.Span) bool {
		o.empty = false
		n := rawjson.Text(name.Of(text))
		switch {
		case n.Is("type"):
			o.Type = chunk.Type(textOf(value.Of(text)))
		case n.Is("agentId"):
			o.AgentID, o.hasID = textOf(value.Of(text)), true
		case n.Is("agentType"):
			o.hasType = true
		case n.Is("timestamp"):
			o.hasTime = true
		case n.Is("step"):
			o.hasStep = true
		case n.Is("streamId"):
			o.hasStream = true
		}
		return true
	})
	for o.open < len(text) && text[o.open] != '{' {
		o.open++
	}
	o.open++
	return o, ok
}

func textOf(quoted []byte) string {
	if len(quoted) < 2 || quoted[0] != '"' {
		return ""
	}
	b, err := rawjson.Text(quoted).AppendTo(nil)
	if err != nil {
		return ""
	}
	return string(b)
}

var (
	typesOfChunks = chunk.Types()
	namesOfTypes  = func() (names []string) {
		for _, t := range typesOfChunks {
			names = append(names, string(t))
		}
		return names
	}()
)

// UnknownType returns a text about a line whose type is neither that of a chunk nor one of an application, which has a dot, and the nearest type, "" for none. The text
// is "" for another line; one without a type is left to chunk.Decode.
func (o Outline) UnknownType() (text, near string) {
	if _, known := slices.BinarySearch(typesOfChunks, o.Type); known || o.Type == "" || strings.Contains(string(o.Type), ".") {
		return "", ""
	}
	text, near = fmt.Sprintf("there is no chunk type %.80q", o.Type), nearest.Name(string(o.Type), namesOfTypes)
	if near != "" {
		text += fmt.Sprintf("; did you mean %q?", near)
	}
	return text, near
}

// Filled returns the line with the members of b that it leaves out. A step_start without a step begins the step after b.Step.
func (o Outline) Filled(b Base) []byte {
	hasStream := o.hasStream || o.Type != chunk.TypeStreamEnd
	if o.hasID && o.hasType && o.hasTime && o.hasStep && hasStream {
		return o.text
	}
	f := rawjson.Begin(make([]byte, 0, len(o.text)+160))
	if !o.hasID {
		f.String("agentId", b.AgentID)
	}
	if !o.hasType {
		f.String("agentType", b.AgentType)
	}
	if !o.hasTime {
		f.Int("timestamp", b.Timestamp)
	}
	if !o.hasStep {
		step := b.Step
		if o.Type == chunk.TypeStepStart {
			step++
		}
		f.Int("step", step)
	}
	if !hasStream {
		f.String("streamId", b.AgentID)
	}
	if !o.empty {
		f.Dst = append(f.Dst, ',')
	}
	return append(f.Dst, o.text[o.open:]...)
}
