package aisdk

import (
	"bytes"
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

// next updates the open text for a chunk. Custom events do not end a text.
func (b *textBlocks) next(body chunk.Body) {
	switch c := body.(type) {
	case chunk.TextDelta, chunk.Custom:
		return
	case chunk.Thinking:
		if !c.IsComplete {
			return
		}
	case chunk.StepStart:
		b.blocks = nil
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
func (t *Translator) textPart(p part) bool {
	kind, event, _ := strings.Cut(p.kind, "-")
	key := kind + " " + p.text("id")
	if event == "start" {
		delete(t.texts.blocks, key) // an id may be used again
		if t.texts.open == key {
			t.texts.open = kind + " \x00ended"
		}
	}
	b := t.texts.block(key)
	if v := p.members().ProviderMetadata; v != nil {
		b.meta = v
	}
	switch event {
	case "delta":
		piece := p.maybe("delta")
		if piece == nil {
			return false
		}
		if *piece != "" || b.sent && b.changes() {
			t.textPiece(key, b, *piece, false)
		}
	case "end":
		delete(t.texts.blocks, key)
		// An empty text with metadata is a part: reasoning that the provider keeps to itself is one. Metadata that comes after another part has followed the text is
		// lost: the log could keep it only in another text.
		last := t.texts.open == key || !b.sent
		if last && (b.changes() || kind == "reasoning" && b.sent) {
			t.textPiece(key, b, "", kind == "reasoning")
		}
	}
	return true
}

// changes reports whether the log does not have the metadata of the text.
func (b *textBlock) changes() bool { return b.meta != nil && !bytes.Equal(b.meta, b.known) }

// textPiece writes a piece of a text.
func (t *Translator) textPiece(key string, b *textBlock, piece string, last bool) {
	kind, _, _ := strings.Cut(key, " ")
	ui := chunk.Part{Begins: t.texts.open != key && strings.HasPrefix(t.texts.open, kind+" ")}
	if b.changes() {
		ui.ProviderMetadata, b.known = b.meta, b.meta
	}
	b.sent = true
	t.texts.open = key
	if kind == "text" {
		t.emitPart(chunk.TextDelta{Delta: piece}, ui)
		return
	}
	t.emitPart(chunk.Thinking{Content: piece, IsComplete: last}, ui)
}
