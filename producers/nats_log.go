package producers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/subjects"
)

// natsLog is the log of one session in JetStream.
type natsLog struct {
	link    *link
	js      jetstream.JetStream
	subject string
	stream  string
	desk    *desk
	timer   *time.Timer // of the attempt under way
	left    attempt     // sent, and nobody waits for its answer just now
}

func newNATSLog(l *link, js jetstream.JetStream, layout subjects.Layout, s chunk.Session) (*natsLog, error) {
	subject, err := layout.Subject(s)
	if err != nil {
		return nil, err
	}
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &natsLog{link: l, js: js, subject: subject, stream: layout.Stream(layout.Partition(s)), desk: l.open(), timer: t}, nil
}

func (l *natsLog) close() { l.link.shut(l.desk) }

func (l *natsLog) room() int {
	if n := l.link.nc.MaxPayload(); n > 0 {
		return int(n)
	}
	return 1 << 20 // never connected yet: what servers take unless told otherwise
}

// attempt is a message that was sent and whose answer is awaited.
type attempt struct {
	number uint64 // of the message, 0 for none
	reply  string
	broke  <-chan struct{} // the connection it was sent on is gone
	before error           // the connection's last error when it was sent
}

// publish sends m, unless its last attempt was left, and waits.
func (l *natsLog) publish(ctx context.Context, m outgoing, left <-chan struct{}) (chunk.Seq, error) {
	if l.left.number != m.number {
		if err := l.send(ctx, m, left); err != nil {
			return 0, err
		}
	}
	a := l.left
	l.left = attempt{}
	for {
		select {
		case answer := <-l.desk.answers:
			// An answer to an earlier attempt at this message is as good. One to
			// an earlier message is too late.
			if answer.Subject == a.reply {
				l.timer.Stop()
				return l.read(answer)
			}
		case <-a.broke:
			return 0, errDisconnected
		case <-l.timer.C:
			return 0, l.silence(a.before)
		case <-left:
			l.left = a
			return 0, errLeft
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// send makes m the attempt that is waited for.
func (l *natsLog) send(ctx context.Context, m outgoing, left <-chan struct{}) error {
	broke, err := l.link.connection(ctx, left)
	if err != nil {
		return err
	}
	a := attempt{
		number: m.number,
		reply:  l.link.inbox + l.desk.name + "." + strconv.FormatUint(m.number, 36),
		broke:  broke,
		before: l.link.nc.LastError(),
	}
	if err := l.link.nc.PublishMsg(&nats.Msg{Subject: l.subject, Reply: a.reply, Header: m.header, Data: m.data}); err != nil {
		return sendError(err)
	}
	l.timer.Reset(l.link.timeout)
	l.left = a
	return nil
}

// sendError translates what the client says to a message it did not take.
func sendError(err error) error {
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: more than the server's max_payload", chunk.ErrTooLarge)
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrConnectionDraining):
		return errConnClosed
	case errors.Is(err, nats.ErrReconnectBufExceeded):
		return errNotConnected
	}
	return err
}

// silence is why no answer came. A server that does not let us publish says so
// to the connection and not in an answer.
func (l *natsLog) silence(before error) error {
	now := l.link.nc.LastError()
	if errors.Is(now, nats.ErrPermissionViolation) && now != before && strings.Contains(now.Error(), `"`+l.subject+`"`) { //nolint:errorlint // a new error value is a new event
		return fmt.Errorf("%w %s", errPermission, l.subject)
	}
	return errTimeout
}

// read is the answer to a publish.
func (l *natsLog) read(m *nats.Msg) (chunk.Seq, error) {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return 0, fmt.Errorf("%w %s; is stream %s there?", errNobody, l.subject, l.stream)
	}
	if seq, ok := readAck(m.Data, l.stream); ok {
		return seq, nil
	}
	var a struct {
		Error  *apiError `json:"error"`
		Stream string    `json:"stream"`
		Seq    uint64    `json:"seq"`
	}
	switch err := json.Unmarshal(m.Data, &a); {
	case err != nil:
		return 0, fmt.Errorf("%w: %.100q", errBadAnswer, m.Data)
	case a.Error != nil:
		return 0, a.Error
	case a.Stream != l.stream:
		return 0, &apiError{ErrCode: codeWrongStream, Text: fmt.Sprintf("subject %s is taken by stream %q, want %q", l.subject, a.Stream, l.stream)}
	case a.Seq == 0:
		return 0, fmt.Errorf("%w: %.100q", errBadAnswer, m.Data)
	}
	return chunk.Seq(a.Seq), nil
}

// readAck reads {"stream":"NAME","seq":N}, which is every answer but the odd one.
func readAck(data []byte, stream string) (chunk.Seq, bool) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"stream":"`))
	if !ok || len(rest) < len(stream) || string(rest[:len(stream)]) != stream {
		return 0, false
	}
	if rest, ok = bytes.CutPrefix(rest[len(stream):], []byte(`","seq":`)); !ok {
		return 0, false
	}
	if rest, ok = bytes.CutSuffix(rest, []byte(`}`)); !ok {
		return 0, false
	}
	seq, err := strconv.ParseUint(string(rest), 10, 64)
	return chunk.Seq(seq), err == nil && seq > 0
}

func (l *natsLog) last(ctx context.Context) (message, error) {
	return l.get(ctx, fmt.Sprintf(`{"last_by_subj":%q}`, l.subject))
}

func (l *natsLog) next(ctx context.Context, after chunk.Seq) (message, error) {
	return l.get(ctx, fmt.Sprintf(`{"seq":%d,"next_by_subj":%q}`, after+1, l.subject))
}

// get asks the stream's leader for one message. The client's GetMsg would ask
// any replica, and one that lags would make us look fenced.
func (l *natsLog) get(ctx context.Context, query string) (message, error) {
	m, err := l.link.request(ctx, "STREAM.MSG.GET."+l.stream, []byte(query))
	if err != nil {
		return message{}, err
	}
	var a struct {
		Error   *apiError `json:"error"`
		Message *struct {
			Seq  uint64    `json:"seq"`
			Hdrs []byte    `json:"hdrs"`
			Data []byte    `json:"data"`
			Time time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return message{}, fmt.Errorf("%w: %w", errBadAnswer, err)
	}
	switch {
	case a.Error != nil && a.Error.ErrCode == codeNoMessage:
		return message{}, errNoMessage
	case a.Error != nil && a.Error.ErrCode == codeStreamNotFound:
		return message{}, fmt.Errorf("stream %s: %w", l.stream, a.Error)
	case a.Error != nil:
		return message{}, a.Error
	case a.Message == nil:
		return message{}, errBadAnswer
	}
	var h nats.Header
	if len(a.Message.Hdrs) > 0 {
		if h, err = nats.DecodeHeadersMsg(a.Message.Hdrs); err != nil {
			h = nil // somebody else's message; whoever looks for headers finds none
		}
	}
	return message{seq: chunk.Seq(a.Message.Seq), stored: a.Message.Time, header: h, data: a.Message.Data}, nil
}

// remove deletes without overwriting: eight milliseconds less, and the log is
// no place for secrets in any case.
func (l *natsLog) remove(ctx context.Context, seq chunk.Seq) error {
	m, err := l.link.request(ctx, "STREAM.MSG.DELETE."+l.stream, fmt.Appendf(nil, `{"seq":%d,"no_erase":true}`, seq))
	if err != nil {
		return err
	}
	var a struct {
		Error   *apiError `json:"error"`
		Success bool      `json:"success"`
	}
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return fmt.Errorf("%w: %w", errBadAnswer, err)
	}
	switch {
	case a.Success:
		return nil
	case a.Error == nil:
		return errBadAnswer
	case a.Error.ErrCode == codeSequenceNotFound:
		return nil
	case a.Error.ErrCode == codeDeleteFailed:
		return l.failedDelete(ctx, seq, a.Error)
	}
	return a.Error
}

// failedDelete: the server says it failed also when the message is not there.
func (l *natsLog) failedDelete(ctx context.Context, seq chunk.Seq, cause error) error {
	_, err := l.get(ctx, fmt.Sprintf(`{"seq":%d}`, seq))
	if errors.Is(err, errNoMessage) {
		return nil
	}
	return cause
}
