// Package jsapi is what the client library cannot ask of JetStream: the last
// message of a subject and the next of a filter as the stream's leader has them,
// how many messages a purge took, and a compare-and-set that goes on until it
// knows what came of it.
//
//	api := jsapi.New(js)
//	m, err := api.Last(ctx, "TR_CHUNKS_0", subject)
//	if errors.Is(err, jetstream.ErrMsgNotFound) {
//		// there is none, and no replica that lags says so
//	}
package jsapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// API asks the JetStream API of one connection. Its methods may be called
// concurrently.
type API struct {
	js     jetstream.JetStream
	nc     *nats.Conn
	prefix string // with the dot
}

// New asks where js does: its domain or prefix.
func New(js jetstream.JetStream) *API {
	a := &API{js: js, nc: js.Conn(), prefix: jetstream.DefaultAPIPrefix}
	switch o := js.Options(); {
	case o.Domain != "":
		a.prefix = "$JS." + o.Domain + ".API."
	case o.APIPrefix != "":
		a.prefix = strings.TrimSuffix(o.APIPrefix, ".") + "."
	}
	return a
}

// Published is the subject under which a message for one of the library's
// buckets is published: beyond a domain or prefix it needs that in front.
func (a *API) Published(subject string) string {
	if a.prefix == jetstream.DefaultAPIPrefix {
		return subject
	}
	return a.prefix + subject
}

// Message is one stored message.
type Message struct {
	Seq     uint64
	Subject string
	Header  nats.Header // nil for none
	Data    []byte
	Time    time.Time
}

// Last is the last message of a subject, asked of the stream's leader. The error
// is jetstream.ErrMsgNotFound when there is none.
func (a *API) Last(ctx context.Context, stream, subject string) (Message, error) {
	return a.get(ctx, stream, map[string]string{"last_by_subj": subject})
}

// Next is the first message of a filter whose sequence is at least from, asked
// of the stream's leader. The error is jetstream.ErrMsgNotFound when there is
// none.
func (a *API) Next(ctx context.Context, stream, filter string, from uint64) (Message, error) {
	return a.get(ctx, stream, struct {
		Seq    uint64 `json:"seq"`
		Filter string `json:"next_by_subj"`
	}{max(from, 1), filter})
}

func (a *API) get(ctx context.Context, stream string, query any) (Message, error) {
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Seq     uint64    `json:"seq"`
			Subject string    `json:"subject"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	err := a.ask(ctx, "STREAM.MSG.GET."+stream, query, &answer)
	switch {
	case err != nil:
		return Message{}, err
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return Message{}, jetstream.ErrMsgNotFound
	case answer.Error != nil:
		return Message{}, answer.Error
	case answer.Message == nil:
		return Message{}, errAnswer
	}
	m := Message{Seq: answer.Message.Seq, Subject: answer.Message.Subject, Data: answer.Message.Data, Time: answer.Message.Time}
	if len(answer.Message.Header) > 0 {
		if m.Header, err = nats.DecodeHeadersMsg(answer.Message.Header); err != nil {
			m.Header = nil // of somebody else; whoever looks for ours finds none
		}
	}
	return m, nil
}

// Purge removes the messages of a subject, which may be a filter, below a
// sequence, and says how many there were. 0 is no bound.
func (a *API) Purge(ctx context.Context, stream, subject string, below uint64) (uint64, error) {
	var answer struct {
		Error  *jetstream.APIError `json:"error"`
		Purged uint64              `json:"purged"`
	}
	query := struct {
		Filter string `json:"filter"`
		Seq    uint64 `json:"seq,omitempty"`
	}{subject, below}
	if err := a.ask(ctx, "STREAM.PURGE."+stream, query, &answer); err != nil {
		return 0, err
	}
	if answer.Error != nil {
		return 0, answer.Error
	}
	return answer.Purged, nil
}

var errAnswer = errors.New("the server's answer is none")

// patience bounds one question of a ctx without a deadline.
const patience = 5 * time.Second

func (a *API) ask(ctx context.Context, subject string, query, answer any) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	data, err := json.Marshal(query)
	if err != nil {
		return err
	}
	m, err := a.nc.RequestWithContext(ctx, a.prefix+subject, data)
	if err != nil {
		return fmt.Errorf("%s: %w", subject, err)
	}
	if err := json.Unmarshal(m.Data, answer); err != nil {
		return fmt.Errorf("%s: %w: %w", subject, errAnswer, err)
	}
	return nil
}
