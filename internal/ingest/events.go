package ingest

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/ingestion"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// The media types of CloudEvents in JSON. An event in binary mode has another one, and its attributes in headers.
const (
	mediaEvent = "application/cloudevents+json"
	mediaBatch = "application/cloudevents-batch+json"
)

var wrongEvent = httpkit.Invalid("want a CloudEvent 1.0, or a batch, whose data is the JSON of a chunk")

// events serves POST …/events.
func (s *Server) events(w http.ResponseWriter, r *http.Request, id string) *httpkit.Problem {
	run, p := s.run(r, id, true)
	if p != nil {
		return p
	}
	text, release, err := s.shared.Bodies.Read(w, r, int64(s.cfg.MaxLine))
	defer release()
	if err != nil {
		return bodyProblem(err)
	}
	events, err := eventsOf(r.Header, text)
	if err != nil {
		return with(wrongEvent, err.Error(), nil)
	}
	ctx, cancel := s.timeout(r.Context())
	defer cancel()
	state, err := s.store(ctx, ingestion.Request{Run: run, First: 1, Lax: isLax(r)}, events)
	if err != nil {
		s.logUnavailable(ctx, run.Session, err)
		return problemOf(err)
	}
	s.respond.JSON(w, http.StatusOK, shown(state))
	return nil
}

func bodyProblem(err error) *httpkit.Problem {
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case large:
		return httpkit.BodyTooLarge
	case errors.Is(err, httpkit.ErrBodyLimit):
		return httpkit.TooManyBodies
	case errors.Is(err, os.ErrDeadlineExceeded):
		return httpkit.BodyTimeout
	}
	return httpkit.BodyUnreadable
}

// store stores the events of a request. Requests of one run on this edge come one after the other: each must know which event was stored before it. A write of
// another edge is a conflict, after which the log is read again.
func (s *Server) store(ctx context.Context, r ingestion.Request, events []ingestion.Event) (ingestion.State, error) {
	ctx, release := s.take(ctx, r.Run, false)
	defer release()
	for {
		err := s.storeOnce(ctx, r, events)
		if r, ok := errors.AsType[*ingestion.RefusalError](err); ok && r.Reason == ingestion.ReasonSuperseded && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return ingestion.State{}, err
		}
		return s.runs.State(ctx, r.Run)
	}
}

func (s *Server) storeOnce(ctx context.Context, r ingestion.Request, events []ingestion.Event) error {
	to, err := s.runs.Attach(ctx, r)
	if err != nil {
		return err
	}
	if err = to.Events(ctx, events); err == nil {
		err = to.Flush(ctx)
	}
	if closed := to.Close(ctx); closed != nil {
		s.shared.Log.DebugContext(ctx, "events not stored", "session", r.Session.String(), "error", closed)
	}
	return err
}

// eventsOf reads a request in one of the three modes.
func eventsOf(h http.Header, text []byte) ([]ingestion.Event, error) {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil && h.Get("Content-Type") != "" {
		return nil, errors.New("malformed Content-Type")
	}
	switch {
	case media == mediaBatch:
		var batch []map[string]jsontext.Value
		if err := json.Unmarshal(text, &batch); err != nil {
			return nil, errors.New("want an array of events, each an object")
		}
		events := make([]ingestion.Event, len(batch))
		for i, members := range batch {
			if events[i], err = structuredEvent(members); err != nil {
				return nil, fmt.Errorf("event %d: %w", i+1, err)
			}
		}
		return distinct(events)
	case media == mediaEvent:
		var members map[string]jsontext.Value
		if err := json.Unmarshal(text, &members); err != nil {
			return nil, errors.New("want one event, an object")
		}
		e, err := structuredEvent(members)
		return []ingestion.Event{e}, err
	case strings.HasPrefix(media, "application/cloudevents"):
		return nil, errors.New("want events in JSON")
	}
	e, err := binaryEvent(h, media, text)
	return []ingestion.Event{e}, err
}

// distinct returns the events of a batch without repeated ones. All must have a sequence, or none.
func distinct(events []ingestion.Event) (all []ingestion.Event, err error) {
	type identity struct {
		source, id string
		sequence   int64
	}
	texts := map[identity][]byte{}
	for i, e := range events {
		if (e.Sequence > 0) != (events[0].Sequence > 0) {
			return nil, errors.New("want a sequence in each event of a batch, or in none")
		}
		id := identity{e.Source, e.ID, e.Sequence}
		switch text, known := texts[id]; {
		case !known:
			texts[id] = e.Text
			all = append(all, e)
		case !bytes.Equal(text, e.Text):
			return nil, fmt.Errorf("event %d: another event of the batch has this source and id", i+1)
		}
	}
	return all, nil
}

func structuredEvent(members map[string]jsontext.Value) (ingestion.Event, error) {
	attributes := make(map[string]string, len(members))
	for name, value := range members {
		switch {
		case name == "data" || name == "data_base64" || value.Kind() == 'n': // null: not set
		case value.Kind() == '"':
			text, err := jsontext.AppendUnquote(nil, value)
			if err != nil {
				return ingestion.Event{}, fmt.Errorf("%s: want a string", name)
			}
			attributes[name] = string(text)
		default:
			attributes[name] = string(value)
		}
	}
	var data []byte
	if value := members["data"]; value.Kind() != 'n' {
		data = value
	}
	if encoded := members["data_base64"]; len(encoded) > 0 && encoded.Kind() != 'n' {
		var text string
		if err := json.Unmarshal(encoded, &text); err != nil {
			return ingestion.Event{}, errors.New("data_base64: want a string")
		}
		var err error
		if data, err = base64.StdEncoding.DecodeString(text); err != nil {
			return ingestion.Event{}, errors.New("data_base64: want base64")
		}
	}
	return eventWith(attributes, attributes["datacontenttype"], data)
}

func binaryEvent(h http.Header, media string, data []byte) (ingestion.Event, error) {
	attributes := map[string]string{}
	for name, values := range h {
		attribute, ok := strings.CutPrefix(strings.ToLower(name), "ce-")
		if !ok {
			continue
		}
		if len(values) != 1 {
			return ingestion.Event{}, fmt.Errorf("%s: want one value", attribute)
		}
		value, err := url.PathUnescape(values[0])
		if err != nil {
			value = values[0] // of an SDK that does not encode
		}
		attributes[attribute] = value
	}
	return eventWith(attributes, media, data)
}

// eventWith returns the event with its attributes, and its data as a line with the type and the time of the event.
func eventWith(attributes map[string]string, contentType string, data []byte) (e ingestion.Event, err error) {
	if attributes["specversion"] != "1.0" {
		return e, errors.New("specversion: want 1.0")
	}
	for _, name := range []string{"id", "source", "type"} {
		if attributes[name] == "" {
			return e, fmt.Errorf("%s: want a value", name)
		}
	}
	if media, _, err := mime.ParseMediaType(contentType); len(data) > 0 && contentType != "" && (err != nil || media != "application/json" && !strings.HasSuffix(media, "+json")) {
		return e, errors.New("datacontenttype: want application/json")
	}
	e.Source, e.ID = attributes["source"], attributes["id"]
	if text, ok := attributes["sequence"]; ok {
		if e.Sequence, err = strconv.ParseInt(text, 10, 54); err != nil || e.Sequence < 1 {
			return e, errors.New("sequence: want a number from 1")
		}
	}
	var at int64
	if text, ok := attributes["time"]; ok {
		t, err := time.Parse(time.RFC3339Nano, strings.ToUpper(text)) // t and z may be small
		if err != nil {
			return e, errors.New("time: want RFC 3339")
		}
		at = t.UnixMilli()
	}
	e.Text, err = lineOf(attributes["type"], at, data)
	return e, err
}

// lineOf returns data with the members type and timestamp, if it lacks them. An event without data is a chunk without members of its own.
func lineOf(kind string, at int64, data []byte) ([]byte, error) {
	if len(data) == 0 {
		data = []byte("{}")
	}
	hasTime, types, others := false, 0, false
	_, ok := rawjson.ScanObject(data, rawjson.Limits{Levels: chunk.MaxDepth}, func(name, value rawjson.Span) bool {
		others = true
		switch n := rawjson.Text(name.Of(data)); {
		case n.Is("timestamp"):
			hasTime = true
		case n.Is("type"):
			types++
			quoted := value.Of(data)
			if quoted[0] != '"' || !rawjson.Text(quoted).Is(kind) {
				types = 2
			}
		}
		return true
	})
	if !ok || types > 1 {
		return nil, errors.New("data: want the object of a chunk, whose type is that of the event or is left out")
	}
	f := rawjson.Begin(make([]byte, 0, len(data)+64))
	if types == 0 {
		f.String("type", kind)
	}
	if !hasTime && at > 0 {
		f.Int("timestamp", at)
	}
	if others && len(f.Dst) > 1 {
		f.Dst = append(f.Dst, ',')
	}
	return append(f.Dst, data[bytes.IndexByte(data, '{')+1:]...), nil
}
