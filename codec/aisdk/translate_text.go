package aisdk

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
)

// textBlocks are the texts of a step of the response. Those of the log have no ids: two pieces of one kind are one text unless something is between them. So the
// first piece of a text says that it begins one where it would continue another text of its kind.
type textBlocks struct {
	open   string // key of the text that a piece in the log would continue, "" for none
	blocks map[string]*textBlock
}

// textBlock is a text, or a block of reasoning.
type textBlock struct {
	meta  chunk.Value // providerMetadata, nil for none
	sent  bool        // a piece of it is in the log
	known chunk.Value // its providerMetadata in the log
}

// next updates the open text for a chunk. Custom events do not end a text. Nor does the end of a step alone: a server that merges streams may continue a text behind it,
// which a writer of whole steps would join to the one before.
func (b *textBlocks) next(body chunk.Body) {
	switch c := body.(type) {
	case chunk.TextDelta, chunk.Custom, chunk.StepEnd:
		return
	case chunk.Thinking:
		if !c.IsComplete {
			return
		}
	}
	b.open = ""
}

// block returns the text with a key, a new one if there is none.
func (b *textBlocks) block(key string) *textBlock {
	if b.blocks[key] == nil {
		if b.blocks == nil {
			b.blocks = make(map[string]*textBlock)
		}
		b.blocks[key] = &textBlock{}
	}
	return b.blocks[key]
}

// textPart translates a part of a text or of reasoning.
func (t *translator) textPart(p part) bool {
	kind, event, _ := strings.Cut(p.kind, "-")
	key := kind + " " + p.text("id")
	if event == "start" {
		delete(t.texts.blocks, key) // an id may be used again
		if t.texts.open == key {
			t.texts.open = kind + " \x00ended"
		}
	}
	b := t.texts.block(key)
	if v := p.members("providerMetadata").ProviderMetadata; v != nil {
		if b.changes() && !bytes.Equal(v, b.meta) {
			t.textPiece(key, b, "", false)
		}
		b.meta = v
	}
	switch event {
	case "delta":
		piece := p.Maybe("delta")
		if piece == nil {
			return false
		}
		if *piece != "" || b.changes() {
			t.textPiece(key, b, *piece, false)
		}
	case "end":
		delete(t.texts.blocks, key)
		last := t.texts.open == key || !b.sent
		switch {
		case last && (b.changes() || kind == "reasoning" && b.sent):
			t.textPiece(key, b, "", kind == "reasoning")
		case b.changes():
			p.Unread("providerMetadata") // another part has followed the text
		}
	}
	return true
}

// flushTexts writes the metadata of texts that have neither a piece nor an end.
func (t *translator) flushTexts() {
	for _, key := range slices.Sorted(maps.Keys(t.texts.blocks)) {
		if b := t.texts.blocks[key]; b.changes() {
			t.textPiece(key, b, "", false)
		}
	}
	t.texts.blocks = nil
}

// changes reports whether the log does not have the metadata of the text.
func (b *textBlock) changes() bool { return b.meta != nil && !bytes.Equal(b.meta, b.known) }

// textPiece writes a piece of a text.
func (t *translator) textPiece(key string, b *textBlock, piece string, last bool) {
	kind, _, _ := strings.Cut(key, " ")
	ui := chunk.Part{Begins: t.texts.open != key && strings.HasPrefix(t.texts.open, kind+" ")}
	if b.changes() {
		ui.ProviderMetadata, b.known = b.meta, b.meta
	}
	b.sent = true
	t.texts.open = key
	if kind == "text" {
		t.emit(chunk.TextDelta{Delta: piece}, ui.Extra()...)
		return
	}
	t.emit(chunk.Thinking{Content: piece, IsComplete: last}, ui.Extra()...)
}
