package httpedge_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
)

// event is an event that a client dispatches.
type event struct {
	id   string // lastEventId as of the event
	name string
	data string
}

// parser interprets an event stream as section 9.2.6 of the HTML standard defines it, but is stricter: a line that the edge never writes is an error.
type parser struct {
	lastEventID string // the Last-Event-ID of a reconnect
	idBuffer    string
	name        string
	data        []string
	retry       int
	comments    int
	idOnly      int // events with only an id
	onEvent     func(event)
}

// read reads r to its end. An incomplete event at the end is discarded, with its id. The error is that of r, nil for a clean end.
func (p *parser) read(r io.Reader) error {
	p.idBuffer, p.name, p.data = p.lastEventID, "", nil
	lines := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := p.line(strings.TrimSuffix(line, "\n")); err != nil {
			return fmt.Errorf("%w in line %q", err, line)
		}
	}
}

func (p *parser) line(line string) error {
	if strings.ContainsAny(line, "\r\x00") {
		return errBadWire
	}
	field, value, found := strings.Cut(line, ": ")
	switch {
	case line == "":
		p.dispatch()
	case strings.HasPrefix(line, ": "):
		p.comments++
	case found && field == "id":
		p.idBuffer = value
	case found && field == "event":
		p.name = value
	case found && field == "data":
		p.data = append(p.data, value)
	case found && field == "retry":
		ms, err := strconv.Atoi(value)
		if err != nil {
			return err
		}
		p.retry = ms
	default:
		return errBadWire
	}
	return nil
}

var errBadWire = fmt.Errorf("malformed event stream")

func (p *parser) dispatch() {
	changed := p.lastEventID != p.idBuffer
	p.lastEventID = p.idBuffer
	name := p.name
	p.name = ""
	if len(p.data) == 0 {
		if changed {
			p.idOnly++
		}
		return
	}
	data := strings.Join(p.data, "\n")
	p.data = nil
	if p.onEvent != nil {
		p.onEvent(event{id: p.lastEventID, name: name, data: data})
	}
}

// seqOf returns the sequence in the id of an event of one session.
func seqOf(id string) chunk.Seq {
	c, ok := chunk.ParseCursor(id)
	if !ok {
		panic("id " + id + ": want a cursor")
	}
	return c.Seq
}

// wireEvent is the data of a native event.
type wireEvent struct {
	Type        string          `json:"type"`
	Chunk       json.RawMessage `json:"chunk"`
	Sequence    chunk.Seq       `json:"sequence"`
	FinalOutput json.RawMessage `json:"finalOutput"`
	Error       string          `json:"error"`
	Status      string          `json:"status"`
	Reason      string          `json:"reason"`
	ResumeFrom  chunk.Seq       `json:"resumeFrom"`
	AtStep      *int64          `json:"truncatedAtStep"`
	AtSequence  chunk.Seq       `json:"atSequence"`
	AgentID     string          `json:"agentId"`
}

func (e event) decode() (wireEvent, error) {
	var w wireEvent
	dec := json.NewDecoder(bytes.NewReader([]byte(e.data)))
	dec.DisallowUnknownFields()
	err := dec.Decode(&w)
	return w, err
}
