package jsapi

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// MostLasts is how many subjects Lasts may be asked for: the server refuses more
// than 1024.
const MostLasts = 1024

// lastsBytes bounds an answer of Lasts. The server sends it without waiting for
// us, and cuts a connection that it has 64 MiB for: several answers and
// everything else must fit in there.
const lastsBytes = 1 << 20

// Lasts calls got with the last message of each subject, in the order of the
// stream, as some replica has them, and says how far that replica is in the
// stream: 0 when it has none of them. A subject without a message is left out,
// and so are those that a long answer has no room for: where anything came, ask
// again for the rest.
func (a *API) Lasts(ctx context.Context, stream string, subjects []string, got func(subject string, m Message)) (upTo uint64, err error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	query := struct {
		Subjects []string `json:"multi_last"`
		Bytes    int      `json:"max_bytes"`
	}{subjects, lastsBytes}
	data, err := json.Marshal(query)
	if err != nil {
		return 0, err
	}
	inbox := a.nc.NewInbox()
	answers, err := a.nc.SubscribeSync(inbox)
	if err != nil {
		return 0, err
	}
	defer func() { _ = answers.Unsubscribe() }()             // it fails where the connection has ended, and the subscription with it
	if err := answers.SetPendingLimits(-1, -1); err != nil { // lastsBytes is the limit
		return 0, err
	}
	subject := "DIRECT.GET." + stream
	if err := a.nc.PublishRequest(a.prefix+subject, inbox, data); err != nil {
		return 0, fmt.Errorf("%s: %w", subject, err)
	}
	for {
		m, err := answers.NextMsgWithContext(ctx)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", subject, err)
		}
		switch status := m.Header.Get("Status"); status {
		case "":
		case "204":
			return number(m, "Nats-UpTo-Sequence")
		case "404": // there is none, or one vanished while it was read
			return 0, nil
		default:
			return 0, fmt.Errorf("%s: %w: %s %s", subject, errAnswer, status, m.Header.Get("Description"))
		}
		seq, err := number(m, jetstream.SequenceHeader)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", subject, err)
		}
		got(m.Header.Get(jetstream.SubjectHeader), Message{Seq: seq, Header: m.Header, Data: m.Data})
	}
}

// number is a header that the server has set.
func number(m *nats.Msg, name string) (uint64, error) {
	n, err := strconv.ParseUint(m.Header.Get(name), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %s: %w", errAnswer, name, err)
	}
	return n, nil
}
