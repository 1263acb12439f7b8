package fold

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/tailrace/tailrace/chunk"
)

// appendText appends to the open text of a kind, or opens one. An empty piece without members does neither, as in the stream.
func (s *Snapshot) appendText(rec chunk.Record, kind partKind, piece string, ui chunk.Part) {
	if piece == "" && !ui.Begins && ui.ProviderMetadata == nil {
		return
	}
	m := s.currentMessage(rec)
	if ui.Begins {
		m.closeText()
	}
	p := m.openText()
	if p == nil || p.kind != kind {
		m.closeText()
		s.messages.add(m, part{kind: kind, open: true})
		m.text = len(m.parts)
		p = &m.parts[m.text-1]
	}
	p.text = join(p.text, piece)
	if ui.ProviderMetadata != nil {
		p.meta = ui.ProviderMetadata
	}
}

// think folds reasoning. A complete chunk closes the block. If pieces of it were streamed before, the chunk may repeat the
// whole, carry the rest, or be empty.
func (s *Snapshot) think(rec chunk.Record, b chunk.Thinking, ui chunk.Part) {
	if !b.IsComplete {
		s.appendText(rec, reasoningPart, b.Content, ui)
		return
	}
	piece := b.Content
	if m := s.messages.openMessage(); m != nil && !ui.Begins {
		if p := m.openText(); p != nil && p.kind == reasoningPart && len(p.text) <= len(piece) && piece[:len(p.text)] == string(p.text) {
			piece = piece[len(p.text):]
		}
	}
	s.appendText(rec, reasoningPart, piece, ui)
	if m := s.messages.openMessage(); m != nil {
		if p := m.openText(); p != nil && p.kind == reasoningPart {
			m.closeText()
		}
	}
}

// appendRaw adds a complete part.
func (s *Snapshot) appendRaw(rec chunk.Record, raw chunk.Value) {
	m := s.currentMessage(rec)
	s.messages.add(m, part{raw: raw})
}

// currentMessage returns the message of the answer that receives the next part. It opens one if the step has no message yet.
func (s *Snapshot) currentMessage(rec chunk.Record) *message {
	h := &s.messages
	if m := h.openMessage(); m != nil {
		m.last = rec.Seq
		s.startStep(m)
		return m
	}
	m := message{index: h.count(), shown: h.shown, role: Assistant, first: rec.Seq, last: rec.Seq}
	if m.shown == noMessage {
		m.shown = m.index
	}
	h.shown = m.shown
	h.open = append(h.open, m)
	opened := &h.open[len(h.open)-1]
	s.startStep(opened)
	return opened
}

// stepStart is the step boundary as it is stored.
const stepStart = `{"type":"step-start"}`

// startStep adds the step boundary before the first part of a step. A step without parts has no boundary.
func (s *Snapshot) startStep(m *message) {
	if s.stepStart {
		s.stepStart = false
		s.messages.add(m, part{raw: chunk.Value(stepStart)})
	}
}

// closeText closes the open text, so that the next piece starts another part.
func (s *Snapshot) closeText() {
	if m := s.messages.openMessage(); m != nil {
		m.closeText()
	}
}

// openText returns the part that receives the next piece of text, nil if there is none. At most one is open; parts that do not
// close it may follow it.
func (m *message) openText() *part {
	if m.text == 0 {
		return nil
	}
	return &m.parts[m.text-1]
}

func (m *message) closeText() {
	if p := m.openText(); p != nil {
		p.open = false
		m.text = 0
	}
}

// join appends a piece of WTF-8 to a text. If the text was split within a surrogate pair, the two halves become one character.
func join(text []byte, piece string) []byte {
	if !endsHigh(text) || !startsLow(piece) {
		return append(text, piece...)
	}
	// The bytes of the first half may be shared with an earlier snapshot, which still contains them: the result is a copy.
	whole := chunk.Concat(string(text[len(text)-3:]), piece[:3])
	text = append(bytes.Clone(text[:len(text)-3]), whole...)
	return append(text, piece[3:]...)
}

func endsHigh(text []byte) bool {
	n := len(text)
	return n >= 3 && text[n-3] == 0xED && text[n-2] >= 0xA0 && text[n-2] <= 0xAF
}

func startsLow(piece string) bool {
	return len(piece) >= 3 && piece[0] == 0xED && piece[1] >= 0xB0 && piece[1] <= 0xBF
}

// oneLine converts a reason to valid UTF-8 on one line.
func oneLine(reason string) string {
	if !utf8.ValidString(reason) {
		reason = strings.ToValidUTF8(reason, "\uFFFD")
	}
	return strings.Join(strings.Fields(reason), " ")
}
