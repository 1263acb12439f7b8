package deadletters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
)

// stored is a message of a stream as it lies there. The library would take the
// headers apart, and fail when they are none.
type stored struct {
	subject string
	seq     chunk.Seq
	time    time.Time
	header  []byte
	data    []byte
}

// request is the body of a get.
type request struct {
	Seq     chunk.Seq `json:"seq"`
	NextFor string    `json:"next_by_subj,omitempty"`
}

// errMissing: there is no such message.
var errMissing = errors.New("no such message")

// patience bounds one request: nobody answers one that is not allowed.
const patience = 5 * time.Second

// get asks the leader of a stream.
func (b *Box) get(ctx context.Context, stream string, req request) (stored, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	body, err := json.Marshal(req)
	if err != nil {
		return stored{}, err
	}
	resp, err := b.js.Conn().RequestWithContext(ctx, b.prefix+"STREAM.MSG.GET."+stream, body)
	if err != nil {
		return stored{}, fmt.Errorf("get from %s: %w", stream, err)
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(resp.Data, &answer); err != nil {
		return stored{}, fmt.Errorf("get from %s: %w", stream, err)
	}
	switch m := answer.Message; {
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return stored{}, errMissing
	case answer.Error != nil:
		return stored{}, fmt.Errorf("get from %s: %w", stream, answer.Error)
	case m == nil:
		return stored{}, fmt.Errorf("get from %s: the answer has no message", stream)
	default:
		return stored{subject: m.Subject, seq: chunk.Seq(m.Seq), time: m.Time, header: m.Header, data: m.Data}, nil
	}
}

// apiPrefix is "$JS.API." or that of a domain.
func apiPrefix(js jetstream.JetStream) string {
	opts := js.Options()
	switch {
	case opts.APIPrefix != "":
		if opts.APIPrefix[len(opts.APIPrefix)-1] != '.' {
			return opts.APIPrefix + "."
		}
		return opts.APIPrefix
	case opts.Domain != "":
		return "$JS." + opts.Domain + ".API."
	}
	return "$JS.API."
}
