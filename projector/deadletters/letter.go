package deadletters

import (
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/subjects"
)

// Letter is one message of the log that could not be folded.
type Letter struct {
	Number  uint64        // its name: the sequence in the stream of letters
	Buried  time.Time     // when it was kept
	Reason  Reason        // what kind of trouble it is, "" when somebody else wrote it
	Why     string        // in words, one line
	Session chunk.Session // the zero Session when its subject is no session's
	Origin  Origin

	// Header is the block of headers as it was stored, nil when there were
	// none; Data the body. Both are nil when something is Missing.
	Header []byte
	Data   []byte

	Missing Missing
}

// Origin is the place of a message in the log.
type Origin struct {
	Stream  string
	Subject string
	Seq     chunk.Seq
	Stored  time.Time
}

// Reason is what kind of trouble a letter is.
type Reason string

// The reasons.
const (
	ReasonRecord   Reason = "record"   // a record whose body cannot be folded
	ReasonEnvelope Reason = "envelope" // on the subject of a session, and no record
	ReasonSubject  Reason = "subject"  // on a subject that is no session's
)

// Reasons are all there are.
func Reasons() []Reason { return []Reason{ReasonRecord, ReasonEnvelope, ReasonSubject} }

// Missing says why a letter is without its message.
type Missing string

// The ways to miss the message.
const (
	NothingMissing Missing = ""
	Gone           Missing = "gone"      // the log had let go of it already
	TooLarge       Missing = "too large" // with the letter's own headers no server takes it
)

// id makes a message distinct for ever: a sequence alone comes again after a
// stream was made anew or restored from an older copy.
func (o Origin) id() string {
	return strconv.FormatUint(uint64(o.Seq), 10) + "-" + strconv.FormatInt(o.Stored.UnixNano(), 36)
}

// The headers of a letter. The headers of the original are in the body, before
// its data: here the server would obey some of them, and all of them would come
// back in another order.
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

func (l *Letter) message(subject string) *nats.Msg {
	header := nats.Header{
		headerReason:   {string(l.Reason)},
		headerWhy:      {l.Why},
		headerStream:   {l.Origin.Stream},
		headerSubject:  {strconv.QuoteToASCII(l.Origin.Subject)}, // subjects may have any character but white space
		headerSequence: {strconv.FormatUint(uint64(l.Origin.Seq), 10)},
		headerStored:   {l.Origin.Stored.UTC().Format(time.RFC3339Nano)},
		headerSize:     {strconv.Itoa(len(l.Header))},
	}
	if l.Missing != NothingMissing {
		header[headerMissing] = []string{string(l.Missing)}
	}
	body := make([]byte, 0, len(l.Header)+len(l.Data))
	return &nats.Msg{Subject: subject, Header: header, Data: append(append(body, l.Header...), l.Data...)}
}

// parse is the inverse of message. What somebody else put into the stream is a
// letter without Reason, Session and Origin, so that it can be seen and dropped.
func parse(m stored, layout subjects.Layout) Letter {
	stranger := Letter{Number: uint64(m.seq), Buried: m.time, Why: "not written by Tailrace", Header: m.header, Data: m.data}
	header, err := nats.DecodeHeadersMsg(m.header)
	if err != nil {
		return stranger
	}
	subject, badSubject := strconv.Unquote(header.Get(headerSubject))
	seq, badSeq := strconv.ParseUint(header.Get(headerSequence), 10, 64)
	at, badTime := time.Parse(time.RFC3339Nano, header.Get(headerStored))
	size, badSize := strconv.Atoi(header.Get(headerSize))
	if errors.Join(badSubject, badSeq, badTime, badSize) != nil || size < 0 || size > len(m.data) {
		return stranger
	}
	letter := Letter{
		Number:  uint64(m.seq),
		Buried:  m.time,
		Reason:  Reason(header.Get(headerReason)),
		Why:     header.Get(headerWhy),
		Origin:  Origin{Stream: header.Get(headerStream), Subject: subject, Seq: chunk.Seq(seq), Stored: at},
		Missing: Missing(header.Get(headerMissing)),
	}
	if size > 0 {
		letter.Header = m.data[:size]
	}
	if letter.Missing == NothingMissing {
		letter.Data = m.data[size:]
	}
	if s, err := layout.Parse(subject); err == nil {
		letter.Session = s
	}
	return letter
}

// line makes a reason fit for a header: one line, of some length.
func line(s string) string {
	const most = 500
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s))
}
