package httpedge

import (
	"bytes"
	"context"
	"errors"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/values"
)

// value serves GET /v1/sessions/{id}/values/{value}: a value that is too large for a message, for clients that are shown the member that refers to it.
func (e *Edge) value(w http.ResponseWriter, r *http.Request, id string) *httpkit.Problem {
	s, name, p := e.readPage(r.Context(), readQuery(r.URL, "root", "view"), id)
	if p != nil {
		return p
	}
	k, ok := values.ParseKey(r.PathValue("run"))
	typ, member := k.ShownAs()
	if !ok || !e.cfg.Views.Get(name).ShowsValue(s, typ, member) {
		return noValue
	}
	ctx, cancel := context.WithTimeout(r.Context(), e.cfg.HistoryTimeout)
	defer cancel()
	mediaType := ""
	data, hold, err := readWithin(ctx, e.reads, func(ctx context.Context) (data []byte, err error) {
		data, mediaType, err = e.snapshots.Value(ctx, s, k.String())
		return data, err
	})
	defer hold.release()
	if errors.Is(err, chunk.ErrUnknownValue) {
		return noValue
	}
	if err != nil {
		return e.loadProblem(s, err)
	}
	hold.shrink(len(data))
	h := w.Header()
	h.Set("X-Session-Id", id)
	h.Set("ETag", `"`+k.SHA256+`"`)
	h.Set("Cache-Control", "private, no-cache")
	// The value is of an agent or a user: a browser must not run it on the origin of the edge.
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Content-Type", mediaType)
	if !isPassive(mediaType) {
		h.Set("Content-Disposition", "attachment")
	}
	e.writeWithin(w, len(data), func() { http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data)) })
	return nil
}

// isPassive reports whether a browser shows a media type without running anything.
func isPassive(mediaType string) bool {
	base, _, err := mime.ParseMediaType(mediaType)
	if err != nil {
		return false
	}
	kind, _, _ := strings.Cut(base, "/")
	switch base {
	case values.JSON, "text/plain":
		return true
	case "image/svg+xml":
		return false
	}
	return kind == "image" || kind == "audio" || kind == "video"
}

// inlined returns a text in which the references to values of at most limit bytes are replaced by the values, as far as there is memory for them, and what it
// takes of the budget of pages.
func (e *Edge) inlined(ctx context.Context, s chunk.Session, name string, limit int, form string, text []byte) ([]byte, *reservation) {
	expand := values.Expand
	if form == dialect.AGUI {
		expand = values.ExpandTexts
	}
	if limit == 0 {
		return text, nil
	}
	compiled, total := e.cfg.Views.Get(name), 0
	fits := func(of chunk.Session, k values.Key, size int) bool {
		return size <= limit && total+size <= values.MaxBytes && compiled.ShowsValue(of, k.Type, k.Member)
	}
	expand(text, s, func(of chunk.Session, k values.Key, size int) []byte {
		if fits(of, k, size) {
			total += size
		}
		return nil
	})
	if total == 0 {
		return text, nil
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.AttachTimeout)
	defer cancel()
	hold, err := reserve(ctx, e.reads.rest, int64(len(text)+2*total))
	if err != nil {
		return text, nil
	}
	total = 0
	return expand(text, s, func(of chunk.Session, k values.Key, size int) []byte {
		if !fits(of, k, size) {
			return nil
		}
		total += size
		data, _, err := e.snapshots.Value(projector.WithReadLimit(ctx, int64(size)), of, k.String())
		if err != nil && !errors.Is(err, chunk.ErrUnknownValue) {
			e.cfg.Log.Warn("value not read", "session", of.String(), "error", err)
		}
		return data
	}), hold
}

// inline sets the text of a page with the values that the client wants inline.
func (e *Edge) inline(ctx context.Context, key pageKey, g page) page {
	form := ""
	if q, ok := key.query.(dialectQuery); ok {
		form = q.dialect
	}
	text, hold := e.inlined(ctx, key.session, key.view, key.inline, form, g.text)
	if hold != nil {
		g.hold.release()
		g.hold = hold
	}
	g.text = text
	return g
}

// inlineBatch is inline for the frames of a stream.
func (v *subscription) inlineBatch(ctx context.Context, batch hub.Batch) (hub.Batch, *reservation) {
	text, hold := v.edge.inlined(ctx, v.target(), v.view, v.inline, v.source.form(), batch.Frames)
	batch.Frames = text
	return batch, hold
}

// readInline returns the size up to which values are inline that are too large for a message, 0 for none.
func (q *query) readInline() int { return q.readCount("inline", 0, values.MaxBytes) }
