package producers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsvalues"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/values"
)

// maxRunValues bounds the large values of a run: 1 GiB.
const maxRunValues = 32 * values.MaxBytes

// encodeWhole returns c and its JSON. Values that are too large for a record are stored as objects first, and c refers to them. A crash between the two leaves
// an object without a record, which the deletion of the session removes.
//
// If a value exceeds a limit, c is the failure of its call or part, so that the run continues.
func (r *Run) encodeWhole(ctx context.Context, c chunk.Chunk) (chunk.Chunk, []byte, error) {
	body, err := c.AppendJSON(make([]byte, 0, usualSize))
	limit := r.cfg.MaxChunk - values.MinBytes // the rest is for the members of other records that get the value
	if c.Type() == chunk.TypeRunStarted {
		limit /= 2 // as an edge stores the files of a message when it arrives
	}
	if err == nil && len(body) <= limit {
		return c, body, nil
	}
	l := large{Run: r, ctx: ctx, typ: c.Type()}
	smaller := c
	smaller.Body = l.body(c.Body)
	switch {
	case errors.Is(l.err, errValueLimit) && c.Type().Control():
		return c, nil, fmt.Errorf("%w: %w", chunk.ErrTooLarge, l.err)
	case errors.Is(l.err, errValueLimit):
		smaller.Body = overLimit(c.Body, l.err)
	case l.err != nil:
		return c, nil, l.err
	case !l.found && err != nil:
		return c, nil, err
	case !l.found && len(body) <= r.cfg.MaxChunk:
		return c, body, nil
	}
	if body, err = smaller.AppendJSON(body[:0]); err != nil {
		return c, nil, err
	}
	if len(body) > r.cfg.MaxChunk {
		return c, nil, fmt.Errorf("%w: %d bytes of JSON, want at most %d", chunk.ErrTooLarge, len(body), r.cfg.MaxChunk)
	}
	return smaller, body, nil
}

// large stores the large values of one chunk.
type large struct {
	*Run

	ctx   context.Context //nolint:containedctx // of the call that emits the chunk
	typ   chunk.Type
	found bool
	err   error
}

// body returns a body with references instead of large values. Patches of the state have none: the state must be in the snapshot.
func (l *large) body(b chunk.Body) chunk.Body {
	switch b := b.(type) {
	case chunk.ToolStart:
		l.value("arguments", &b.Arguments)
		return b
	case chunk.ToolEnd:
		l.value("result", &b.Result)
		return b
	case chunk.ToolApprovalRequest:
		l.value("input", &b.Input)
		return b
	case chunk.ToolInputError:
		b.PartialInput = l.optional("partialInput", b.PartialInput)
		return b
	case chunk.SubagentEnd:
		l.value("result", &b.Result)
		return b
	case chunk.Custom:
		l.value("data", &b.Data)
		return b
	case chunk.Output:
		l.value("output", &b.Output)
		return b
	case chunk.StreamEnd:
		b.FinalOutput = l.optional("finalOutput", b.FinalOutput)
		return b
	case chunk.File:
		l.url("url", &b.URL)
		return b
	case chunk.RunStarted:
		b.Input = slices.Clone(b.Input)
		for i := range b.Input {
			b.Input[i].Files = slices.Clone(b.Input[i].Files)
			for j := range b.Input[i].Files {
				l.url("input", &b.Input[i].Files[j].URL)
			}
		}
		return b
	}
	return b
}

func (l *large) optional(member string, v *chunk.Value) *chunk.Value {
	if v == nil {
		return nil
	}
	copied := *v
	l.value(member, &copied)
	return &copied
}

// value replaces a JSON value. It may have more members than those of a chunk, because readers of the log do not parse it.
func (l *large) value(member string, v *chunk.Value) {
	text := rawjson.TrimSpace(*v)
	if len(text) < values.MinBytes {
		return
	}
	info, ok := rawjson.Scan(text, rawjson.Limits{Levels: chunk.MaxDepth, Values: values.MaxBytes, Name: values.MaxBytes})
	if !ok || rawjson.Duplicate(text) != nil {
		return // the error of the chunk says why
	}
	if info.HasLineBreaks {
		text = rawjson.AppendCompact(make([]byte, 0, len(text)), text)
	}
	if k, ok := l.put(member, values.JSON, text); ok {
		*v = values.Reference(l.session, k, len(text))
	}
}

// url replaces a data URL.
func (l *large) url(member string, u *string) {
	if len(*u) < values.MinBytes {
		return
	}
	mediaType, data, ok := values.DataURL(*u)
	if !ok {
		return
	}
	if k, ok := l.put(member, mediaType, data); ok {
		*u = values.URL(l.session, k)
	}
}

func (l *large) put(member, mediaType string, data []byte) (k values.Key, ok bool) {
	if len(data) < values.MinBytes || l.err != nil {
		return k, false
	}
	l.found = true
	total := l.valueBytes.Add(int64(len(data)))
	switch {
	case len(data) > values.MaxBytes:
		l.err = fmt.Errorf("%w: it has %d bytes, want at most %d", errValueLimit, len(data), values.MaxBytes)
	case total > maxRunValues:
		l.err = fmt.Errorf("%w: the values of the run have more than %d bytes", errValueLimit, maxRunValues)
	default:
		k = values.NewKey(l.epoch, l.typ, member, data)
		l.err = l.log.putValue(l.ctx, k, mediaType, data)
		if errors.Is(l.err, jsvalues.ErrLimit) {
			l.slog.Warn("large value not stored", "type", string(l.typ), "error", l.err)
			l.err = fmt.Errorf("%w: there is no place for it", errValueLimit)
		}
	}
	return k, l.err == nil
}

// errValueLimit reports a value that is too large, or for which the run or the tenant has no place.
var errValueLimit = errors.New("the value is too large")

// overLimit returns the failure of the call, or else of the part, that b is.
func overLimit(b chunk.Body, err error) chunk.Body {
	text, code := err.Error(), values.CodeTooLarge
	switch b := b.(type) {
	case chunk.ToolEnd:
		return chunk.ToolEnd{ToolCallID: b.ToolCallID, ToolName: b.ToolName, Error: &text, ErrorCode: &code, ProviderExecuted: b.ProviderExecuted}
	case chunk.ToolStart:
		return chunk.ToolInputError{ToolCallID: b.ToolCallID, ToolName: b.ToolName, Error: code + ": " + text}
	case chunk.ToolApprovalRequest:
		return chunk.ToolInputError{ToolCallID: b.ToolCallID, ToolName: b.ToolName, Error: code + ": " + text}
	case chunk.SubagentEnd:
		b.Result = nil
		return b
	}
	return chunk.Error{Error: text, Code: &code, Recoverable: true}
}
