// Package turnequal compares what two writers of a dialect write: the old one of package oldturn and its successor. Both get the records of random logs, and write
// the same bytes for each record, whatever a view hides, wherever a client connects again, and however much of the log is history.
//
//	var known = turnequal.Differences{{
//		Name: "suffix of a repeated id", Dialect: turnequal.Mastra, Reason: "…",
//		Accepts: func(c *turnequal.Case, at int) bool { … },
//	}}
//
//	func TestEqual(t *testing.T) {
//		rapid.Check(t, func(t *rapid.T) {
//			turnequal.Check(t, turnequal.AGUI, turntest.Config{Turns: 3, SubAgents: true, Crashes: true, Reuse: true, Wide: true}, known, func(of turnequal.Turn) turnequal.Writer {
//				return agui.New(of.ID, agui.Options(of.AGUI))
//			})
//		})
//		known.Unused(t, turnequal.AGUI)
//	}
//
// Only tests may import the package, because it imports pgregory.net/rapid.
package turnequal

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/turntest"
)

// Names of the dialects.
const (
	AGUI   = "agui"
	AISDK  = "aisdk"
	Kortyx = "kortyx"
	Mastra = "mastra"
)

// Writer writes one turn of a session. A Writer that also has a method Skip(chunk.Record) gets what the client has by it; others get it by Append, and the frames
// are dropped. The data of a record is overwritten after the call.
type Writer interface {
	Append(dst []byte, rec chunk.Record) []byte
	Hide(dst []byte, rec chunk.Record) []byte
	Resume(dst []byte) []byte
	Done() bool
}

// Message is the Writer of the AI SDK, which chat uses with more methods. MessageOf returns one for a writer whose BeginReplay has a result of its own type.
type Message interface {
	Writer

	Advance(rec chunk.Record)
	Continue()
	Start(dst []byte) []byte
	Finish(dst []byte) []byte
	BeginReplay() Replay
}

// Replay writes stored records: it gets all of them three times, by FindRemoved, by Scan, and by Append or Hide.
type Replay interface {
	FindRemoved(rec chunk.Record)
	Scan(rec chunk.Record)
	Append(dst []byte, rec chunk.Record) []byte
	Hide(dst []byte, rec chunk.Record) []byte
	Complete() bool
	End(dst []byte) []byte
}

// MessageOf returns m as a Message.
func MessageOf[R Replay](m interface {
	Writer

	Advance(rec chunk.Record)
	Continue()
	Start(dst []byte) []byte
	Finish(dst []byte) []byte
	BeginReplay() R
},
) Message {
	return message{m, func() Replay { return m.BeginReplay() }}
}

type message struct {
	base

	begin func() Replay
}

type base interface {
	Writer

	Advance(rec chunk.Record)
	Continue()
	Start(dst []byte) []byte
	Finish(dst []byte) []byte
}

func (m message) BeginReplay() Replay { return m.begin() }

// Difference is a difference that is intended.
type Difference struct {
	Name    string
	Dialect string
	Reason  string

	// Accepts reports whether the writers of the dialect differ at a record of a turn for this reason, or at what they write after it. The rest of the turn is not
	// compared then.
	Accepts func(c *Case, at int) bool

	// Common, instead of Accepts, returns what both writers write, from the frames of one of them at a record: without what differs. The rest is compared.
	Common func(c *Case, at int, frames []byte) []byte

	used bool
}

// Differences are the known ones.
type Differences []*Difference

// Unused fails for each difference of a dialect that was not found by Check.
func (d Differences) Unused(tb testing.TB, dialect string) {
	tb.Helper()
	for _, row := range d {
		if row.Dialect == dialect && !row.used {
			tb.Errorf("%s: %q was not found: is it a difference still?", dialect, row.Name)
		}
	}
}

// accepts reports whether a row accepts a difference.
func (d Differences) accepts(c *Case, at int) bool {
	for _, row := range d {
		if row.Dialect == c.Dialect && row.Accepts != nil && row.Accepts(c, at) {
			row.used = true
			return true
		}
	}
	return false
}

// common returns what is left of the frames of the writers without what may differ.
func (d Differences) common(c *Case, at int, old, now []byte) (left, right []byte) {
	for _, row := range d {
		if row.Dialect != c.Dialect || row.Common == nil || bytes.Equal(old, now) {
			continue
		}
		left, right := row.Common(c, at, old), row.Common(c, at, now)
		row.used = row.used || !bytes.Equal(left, old) || !bytes.Equal(right, now)
		old, now = left, right
	}
	return old, now
}

// Case is a turn and what a client does while it reads it.
type Case struct {
	Turn

	Dialect string
	Log     turntest.Log // the records of the turn, and a few of the next one
	Hidden  []bool       // records that the client must not see
	Shown   turntest.Log // what it sees of the others

	// The difference that a row is asked about: the method of the writers, and the frames of each, without what other rows leave out.
	Method   string
	Old, New []byte

	seed uint64 // of what it does
}

// Check compares the writers of a dialect with each turn of a random log: the old one, and the one that now returns for a turn. That of the AI SDK must be a Message.
func Check(t *rapid.T, dialect string, config turntest.Config, known Differences, now func(Turn) Writer) {
	t.Helper()
	for _, c := range cases(dialect, config).Draw(t, "turns") {
		if compare(c, known, old(dialect), now) == "" {
			continue
		}
		c = reduce(c, func(c *Case) bool { return compare(c, known, old(dialect), now) != "" })
		t.Log(compare(c, known, old(dialect), now))
		t.Fatal("the writers differ")
	}
}

// reduce returns a case with as few records as possible that differs: rapid does not know that records can be removed.
func reduce(c *Case, differs func(*Case) bool) *Case {
	for size := len(c.Log) / 2; size > 0; size /= 2 {
		for from := 0; from+size <= len(c.Log); {
			fewer := *c
			fewer.Log = slices.Delete(slices.Clone(c.Log), from, from+size)
			fewer.Hidden = slices.Delete(slices.Clone(c.Hidden), from, from+size)
			fewer.Shown = slices.Delete(slices.Clone(c.Shown), from, from+size)
			if len(fewer.Log) > 0 && differs(&fewer) {
				c = &fewer
			} else {
				from += size
			}
		}
	}
	return c
}

// compare returns the first difference that is not known, "" for none.
func compare(c *Case, known Differences, old, now func(Turn) Writer) string {
	passes := []func(*pair) error{(*pair).whole, (*pair).tails}
	if c.Dialect == AISDK {
		passes = append(passes, (*pair).responses)
	}
	accepted := len(c.Log) // place of the first difference that is known
	for i, pass := range passes {
		p := pair{Case: c, known: known, open: func() (Writer, Writer) { return old(c.Turn), now(c.Turn) }, rand: rand.New(rand.NewPCG(c.seed, uint64(i)))}
		if err := pass(&p); err != nil {
			if p.at >= accepted || known.accepts(c, p.at) {
				accepted = min(accepted, p.at) // the other passes compare what is before it
				continue
			}
			return err.Error()
		}
	}
	return ""
}

// pair is an old and a new writer that get the same.
type pair struct {
	*Case

	known    Differences
	open     func() (Writer, Writer)
	rand     *rand.Rand
	old, now Writer
	did      string // what was done before, such as the place where the client connected
	at       int    // record that was passed last
	shared   []byte // data of the record for the new writer
}

func (p *pair) pick(n int) int { return p.rand.IntN(n) }

// begin opens new writers.
func (p *pair) begin(did string) {
	p.old, p.now = p.open()
	p.did, p.at = did, 0
}

// equal compares what the writers have written. It returns an error that describes the difference.
func (p *pair) equal(what string, old, now []byte) error {
	p.Method = what
	if !bytes.Equal(old, now) {
		old, now = p.known.common(p.Case, p.at, old, now)
	}
	p.Old, p.New = old, now
	switch {
	case !bytes.Equal(old, now):
		return fmt.Errorf("%s: %s at record %d, %s:\n old %q\n new %q\nof %s\n%s", p.Dialect, what, p.at, p.did, old, now, p.Turn, p.upTo())
	case p.old.Done() != p.now.Done():
		return fmt.Errorf("%s: Done after %s at record %d, %s: old %t, new %t\nof %s\n%s", p.Dialect, what, p.at, p.did, p.old.Done(), p.now.Done(), p.Turn, p.upTo())
	}
	return nil
}

// upTo returns the log up to the record that was passed last.
func (p *pair) upTo() string {
	var b strings.Builder
	for i, rec := range p.Log[:min(p.at+1, len(p.Log))] {
		mark := ""
		if p.Hidden[i] {
			mark = " hidden"
		} else {
			rec = p.Shown[i]
		}
		fmt.Fprintf(&b, "%d: %d %s/%d epoch %d%s %s %s\n", i, rec.Seq, rec.Session.ID, rec.Ordinal, rec.Epoch, mark, rec.Type, rec.Data)
	}
	return b.String()
}

// lend returns a record whose data is overwritten by the next call, as the buffer of a reader.
func (p *pair) lend(rec chunk.Record) chunk.Record {
	clear(p.shared)
	p.shared = append(p.shared[:0], rec.Data...)
	rec.Data = slices.Clip(p.shared)
	return rec
}

// dst is what both writers append to.
const dst = "x"

// appends passes a record to the writers.
func (p *pair) appends(i int) error {
	p.at = i
	if p.Hidden[i] {
		return p.equal("Hide", p.old.Hide([]byte(dst), p.Log[i]), p.now.Hide([]byte(dst), p.lend(p.Log[i])))
	}
	return p.equal("Append", p.old.Append([]byte(dst), p.Shown[i]), p.now.Append([]byte(dst), p.lend(p.Shown[i])))
}

// skips passes a record that the client has.
func (p *pair) skips(i int) {
	p.at = i
	if p.Hidden[i] {
		p.old.Hide(nil, p.Log[i])
		p.now.Hide(nil, p.lend(p.Log[i]))
		return
	}
	p.old.Append(nil, p.Shown[i])
	if w, ok := p.now.(interface{ Skip(rec chunk.Record) }); ok {
		w.Skip(p.lend(p.Shown[i]))
		return
	}
	p.now.Append(nil, p.lend(p.Shown[i]))
}

func (p *pair) resumes() error {
	return p.equal("Resume", p.old.Resume([]byte(dst)), p.now.Resume([]byte(dst)))
}

// whole compares the frames of all records, with new responses: none, after the end of one, sometimes, or after each record.
func (p *pair) whole() error {
	mode := p.pick(4)
	p.begin(fmt.Sprintf("with responses of mode %d", mode))
	for i := range p.Log {
		if err := p.appends(i); err != nil {
			return err
		}
		if mode == 1 && p.now.Done() || mode == 2 && p.pick(5) == 0 || mode == 3 {
			if err := p.resumes(); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxTails bounds the places of a turn where a client connects again. Those of other logs are others.
const maxTails = 8

// tails compares the frames after places where a client connects again.
func (p *pair) tails() error {
	stride := 1 + len(p.Log)/maxTails
	for cut := p.pick(stride); cut <= len(p.Log); cut += stride {
		resumes := p.pick(4) > 0
		p.begin(fmt.Sprintf("after a cut before %d, Resume %t", cut, resumes))
		for i := range cut {
			p.skips(i)
		}
		if resumes {
			if err := p.resumes(); err != nil {
				return err
			}
		}
		for i := cut; i < len(p.Log); i++ {
			if err := p.appends(i); err != nil {
				return err
			}
		}
	}
	return nil
}
