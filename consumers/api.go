package consumers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
)

// errMissing: there is no such message in the stream.
var errMissing = errors.New("no such message")

// api is the part of the JetStream API that reading needs. Messages are asked
// for by hand and not through the library: it decides by itself whether a get
// goes to any replica or to the leader, and here that is the question.
type api struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	prefix string // "$JS.API." or that of a domain
}

func newAPI(nc *nats.Conn, js jetstream.JetStream) *api {
	opts := js.Options()
	prefix := "$JS.API."
	switch {
	case opts.APIPrefix != "":
		prefix = opts.APIPrefix
		if prefix[len(prefix)-1] != '.' {
			prefix += "."
		}
	case opts.Domain != "":
		prefix = "$JS." + opts.Domain + ".API."
	}
	return &api{nc: nc, js: js, prefix: prefix}
}

// message is one stored message.
type message struct {
	subject string
	seq     chunk.Seq
	time    time.Time
	header  nats.Header
	data    []byte
}

// streamState is what a stream's leader says about it.
type streamState struct {
	created     time.Time
	first, last chunk.Seq
	replicas    int
}

func (a *api) state(ctx context.Context, stream string) (streamState, error) {
	s, err := a.js.Stream(ctx, stream)
	if err != nil {
		return streamState{}, fmt.Errorf("stream %s: %w", stream, err)
	}
	return stateOf(s.CachedInfo()), nil
}

// list is the state of a stream and then the subjects of a filter that have
// messages, and how many, in this order: a subject that is not listed has none up
// to the end that the state tells. More than a hundred thousand are not listed in
// full.
func (a *api) list(ctx context.Context, stream, filter string) (streamState, map[string]uint64, error) {
	resp, err := a.request(ctx, "STREAM.INFO."+stream, map[string]string{"subjects_filter": filter})
	if err != nil {
		return streamState{}, nil, fmt.Errorf("stream %s: %w", stream, err)
	}
	var answer struct {
		jetstream.StreamInfo

		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(resp.Data, &answer); err != nil {
		return streamState{}, nil, fmt.Errorf("stream %s: %w", stream, err)
	}
	if answer.Error != nil {
		return streamState{}, nil, fmt.Errorf("stream %s: %w", stream, answer.Error)
	}
	return stateOf(&answer.StreamInfo), answer.State.Subjects, nil
}

func stateOf(info *jetstream.StreamInfo) streamState {
	return streamState{
		created:  info.Created,
		first:    chunk.Seq(info.State.FirstSeq),
		last:     chunk.Seq(info.State.LastSeq),
		replicas: info.Config.Replicas,
	}
}

// getRequest is the body of both kinds of get.
type getRequest struct {
	Seq       chunk.Seq `json:"seq,omitempty"`
	LastFor   string    `json:"last_by_subj,omitempty"`
	NextFor   string    `json:"next_by_subj,omitempty"`
	MultiLast []string  `json:"multi_last,omitempty"`
	UpToSeq   chunk.Seq `json:"up_to_seq,omitempty"`
	Batch     int       `json:"batch,omitempty"`
}

// bySeq asks any replica, and the leader before it believes that the message
// is missing: replicas lag.
func (a *api) bySeq(ctx context.Context, stream string, seq chunk.Seq) (message, error) {
	m, err := a.direct(ctx, stream, getRequest{Seq: seq})
	if err == nil || ctx.Err() != nil {
		return m, err
	}
	return a.leader(ctx, stream, getRequest{Seq: seq})
}

// lastOf is the last message of a subject or filter, from the leader.
func (a *api) lastOf(ctx context.Context, stream, subject string) (message, error) {
	return a.leader(ctx, stream, getRequest{LastFor: subject})
}

// firstOf is the first message of a subject from a sequence on, from the leader.
func (a *api) firstOf(ctx context.Context, stream, subject string, from chunk.Seq) (message, error) {
	return a.leader(ctx, stream, getRequest{Seq: from, NextFor: subject})
}

// before is the last message of a subject with a sequence of at most upTo. It
// may come from a replica that lags, and then be too early or missing; the
// leader has no such request.
func (a *api) before(ctx context.Context, stream, subject string, upTo chunk.Seq) (message, error) {
	return a.direct(ctx, stream, getRequest{MultiLast: []string{subject}, UpToSeq: upTo, Batch: 1})
}

func (a *api) direct(ctx context.Context, stream string, req getRequest) (message, error) {
	resp, err := a.request(ctx, "DIRECT.GET."+stream, req)
	if err != nil {
		return message{}, fmt.Errorf("get from %s: %w", stream, err)
	}
	if len(resp.Data) == 0 {
		switch status := resp.Header.Get(statusHeader); status {
		case "":
		case "404", "204":
			return message{}, errMissing
		default:
			return message{}, fmt.Errorf("get from %s: %s %s", stream, status, resp.Header.Get(descriptionHeader))
		}
	}
	seq, err := strconv.ParseUint(resp.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		return message{}, fmt.Errorf("get from %s: the answer has no sequence", stream)
	}
	at, err := time.Parse(time.RFC3339Nano, resp.Header.Get("Nats-Time-Stamp"))
	if err != nil {
		return message{}, fmt.Errorf("get from %s: the answer has no time: %w", stream, err)
	}
	return message{
		subject: resp.Header.Get("Nats-Subject"),
		seq:     chunk.Seq(seq),
		time:    at,
		header:  resp.Header,
		data:    resp.Data,
	}, nil
}

// getResponse is the leader's answer.
type getResponse struct {
	Error   *jetstream.APIError `json:"error"`
	Message *struct {
		Subject string    `json:"subject"`
		Seq     uint64    `json:"seq"`
		Header  []byte    `json:"hdrs"`
		Data    []byte    `json:"data"`
		Time    time.Time `json:"time"`
	} `json:"message"`
}

func (a *api) leader(ctx context.Context, stream string, req getRequest) (message, error) {
	resp, err := a.request(ctx, "STREAM.MSG.GET."+stream, req)
	if err != nil {
		return message{}, fmt.Errorf("get from the leader of %s: %w", stream, err)
	}
	var answer getResponse
	if err := json.Unmarshal(resp.Data, &answer); err != nil {
		return message{}, fmt.Errorf("get from the leader of %s: %w", stream, err)
	}
	if answer.Error != nil {
		if answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound {
			return message{}, errMissing
		}
		return message{}, fmt.Errorf("get from the leader of %s: %w", stream, answer.Error)
	}
	if answer.Message == nil {
		return message{}, fmt.Errorf("get from the leader of %s: the answer has no message", stream)
	}
	m := message{
		subject: answer.Message.Subject,
		seq:     chunk.Seq(answer.Message.Seq),
		time:    answer.Message.Time,
		data:    answer.Message.Data,
	}
	if len(answer.Message.Header) > 0 {
		if m.header, err = nats.DecodeHeadersMsg(answer.Message.Header); err != nil {
			m.header = nil // whoever reads it finds no envelope
		}
	}
	return m, nil
}

func (a *api) request(ctx context.Context, subject string, body any) (*nats.Msg, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return a.nc.RequestWithContext(ctx, a.prefix+subject, data)
}
