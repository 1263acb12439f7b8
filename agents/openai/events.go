package openai

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/ingestion"
	"github.com/tailrace/tailrace/internal/openaistream"
)

// maxEventBytes is the size of an event of a response.
const maxEventBytes = 32 << 20

// events yields the data of the events of a stream, up to its end or an error.
func events(body io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		lines := ingestion.NewLines(body, ingestion.WholeEvents, maxEventBytes, nil)
		for {
			data, _, err := lines.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if len(bytes.TrimSpace(data)) > 0 && !yield(data, nil) {
				return
			}
		}
	}
}

// read writes a response to the step. whole: the body cannot end before the response without an error. The error is of the endpoint or the connection, unless p has
// one.
func (p *stepWriter) read(ctx context.Context, body io.Reader, whole bool) (result, error) {
	var r openaistream.Reader
	if p.step != nil {
		r.Step = int64(p.step.Number())
	}
	err := p.readAll(ctx, body, &r)
	switch {
	case p.err != nil:
		return result{}, p.err
	case r.Failure != nil:
		return result{}, r.Failure
	case r.Finish != "": // the answer is complete; after an error of the connection, at most its usage is missing
		slices.SortFunc(p.calls, func(a, b *call) int { return a.Index - b.Index })
		return result{finish: r.Finish, model: r.Model, usage: r.Usage}, nil
	case err != nil:
		return result{}, err
	case whole && p.nothing:
		return result{}, errNothing
	case whole && r.Usage != nil: // which follows the reason
		return result{}, errNoFinish
	case whole:
		return result{}, errCutWhole
	}
	return result{}, errStreamCut
}

func (p *stepWriter) readAll(ctx context.Context, body io.Reader, r *openaistream.Reader) error {
	p.nothing = true
	for data, err := range events(body) {
		if err != nil {
			return err
		}
		p.nothing = false
		parts, err := r.Read(data)
		if err != nil {
			return err
		}
		if err := p.writeAll(ctx, parts); err != nil {
			return err
		}
		if r.Over {
			break
		}
	}
	if r.Finish == "" { // the attempt has failed, and its output is removed
		return nil
	}
	return p.writeAll(ctx, r.Close())
}

func (p *stepWriter) writeAll(ctx context.Context, parts []openaistream.Event) error {
	for _, e := range parts {
		if err := p.write(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// write writes a part of the response. Halves of characters that a server has cut become U+FFFD.
func (p *stepWriter) write(ctx context.Context, e openaistream.Event) error {
	piece, extra := strings.ToValidUTF8(e.Text, "\uFFFD"), p.extra(e.State)
	switch e.Kind {
	case openaistream.Text: // also of a refusal
		return p.text(ctx, piece, extra)
	case openaistream.Reasoning:
		return p.think(ctx, chunk.Thinking{Content: piece}, extra)
	case openaistream.ReasoningEnd:
		return p.think(ctx, chunk.Thinking{IsComplete: true}, extra)
	case openaistream.Arguments:
		return p.writeArgs(ctx, p.call(e.Call), piece)
	case openaistream.CallDone:
		return p.callDone(ctx, p.call(e.Call))
	case openaistream.ServerCall:
		return p.serverCall(ctx, e.Value)
	}
	return p.other(ctx, e.Body)
}
