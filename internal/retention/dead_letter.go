package retention

import (
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/subjects"
)

// DeadLetter is one message of the log that could not be folded.
type DeadLetter struct {
	Seq     uint64        // sequence in the stream of dead letters, identifies the entry
	AddedAt time.Time     // when the entry was stored
	Reason  Reason        // "" if another program wrote the entry
	Detail  string        // error text, one line
	Session chunk.Session // the zero Session if the subject is not one of a session
	Origin  Origin

	// Header holds the headers as they were stored, nil if there were none. Data holds the body. Both are nil if Missing is set.
	Header []byte
	Data   []byte

	Missing Missing
}

// Origin is the position of a message in the log.
type Origin struct {
	Stream  string
	Subject string
	Seq     chunk.Seq
	Stored  time.Time
}

// Reason is the kind of an entry.
type Reason string

// The reasons.
const (
	ReasonRecord   Reason = "record"   // the body of a record cannot be folded
	ReasonEnvelope Reason = "envelope" // malformed message on the subject of a session
	ReasonSubject  Reason = "subject"  // the subject is not one of a session
)

// Reasons returns all reasons.
func Reasons() []Reason { return []Reason{ReasonRecord, ReasonEnvelope, ReasonSubject} }

// Missing is the reason why an entry does not contain its message.
type Missing string

// The reasons for a missing message.
const (
	MissingNone     Missing = ""
	MissingExpired  Missing = "gone"      // expired or removed before it was stored here
	MissingTooLarge Missing = "too large" // too large together with the headers of the entry
)

// id identifies a message permanently: a sequence alone occurs twice after a stream was recreated or restored from a backup.
func (o Origin) id() string {
	return strconv.FormatUint(uint64(o.Seq), 10) + "-" + strconv.FormatInt(o.Stored.UnixNano(), 36)
}

// The headers of an entry. The headers of the message are in the body, before its data: as headers, the server would act on some of them and return all of
// them in another order.
const (
	headerReason   = "Tailrace-Reason"
	headerWhy      = "Tailrace-Why"
	headerStream   = "Tailrace-Stream"
	headerSubject  = "Tailrace-Subject"
	headerSequence = "Tailrace-Sequence"
	headerStored   = "Tailrace-Stored"
	headerSize     = "Tailrace-Header-Bytes"
	headerMissing  = "Tailrace-Missing"
)

func (e *DeadLetter) message(subject string) *nats.Msg {
	header := nats.Header{
		headerReason:   {string(e.Reason)},
		headerWhy:      {e.Detail},
		headerStream:   {e.Origin.Stream},
		headerSubject:  {strconv.QuoteToASCII(e.Origin.Subject)}, // a subject may contain any character but white space
		headerSequence: {strconv.FormatUint(uint64(e.Origin.Seq), 10)},
		headerStored:   {e.Origin.Stored.UTC().Format(time.RFC3339Nano)},
		headerSize:     {strconv.Itoa(len(e.Header))},
	}
	if e.Missing != MissingNone {
		header[headerMissing] = []string{string(e.Missing)}
	}
	body := make([]byte, 0, len(e.Header)+len(e.Data))
	return &nats.Msg{Subject: subject, Header: header, Data: append(append(body, e.Header...), e.Data...)}
}

// parseDeadLetter is the inverse of message. A message of another program becomes an entry without Reason, Session and Origin, so that it can be listed and
// dropped.
func parseDeadLetter(m jsclient.Message, layout subjects.Layout) DeadLetter {
	unknownEntry := DeadLetter{Seq: m.Seq, AddedAt: m.Stored, Detail: "not written by Tailrace", Header: m.Block, Data: m.Data}
	header, err := nats.DecodeHeadersMsg(m.Block)
	if err != nil {
		return unknownEntry
	}
	subject, badSubject := strconv.Unquote(header.Get(headerSubject))
	seq, badSeq := strconv.ParseUint(header.Get(headerSequence), 10, 64)
	at, badTime := time.Parse(time.RFC3339Nano, header.Get(headerStored))
	size, badSize := strconv.Atoi(header.Get(headerSize))
	if errors.Join(badSubject, badSeq, badTime, badSize) != nil || size < 0 || size > len(m.Data) {
		return unknownEntry
	}
	entry := DeadLetter{
		Seq:     m.Seq,
		AddedAt: m.Stored,
		Reason:  Reason(header.Get(headerReason)),
		Detail:  header.Get(headerWhy),
		Origin:  Origin{Stream: header.Get(headerStream), Subject: subject, Seq: chunk.Seq(seq), Stored: at},
		Missing: Missing(header.Get(headerMissing)),
	}
	if size > 0 {
		entry.Header = m.Data[:size]
	}
	if entry.Missing == MissingNone {
		entry.Data = m.Data[size:]
	}
	if s, err := layout.Parse(subject); err == nil {
		entry.Session = s
	}
	return entry
}

// line shortens a reason to one line of at most 500 bytes, for a header.
func line(s string) string {
	const maxLen = 500
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) > maxLen {
		s = strings.ToValidUTF8(s[:maxLen], "") + "…"
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s))
}
