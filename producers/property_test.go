package producers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
)

// TestLogEqualsModel runs a random program of calls against a log with random faults; the model is the list of tokens that calls accepted. In the end
//
//   - tokens are in the log in the order in which they were accepted, each once;
//   - a token whose Write returned nil is there, at the returned sequence;
//   - a missing token was rejected by the server, and its error was returned, or its run ended in an error or was closed: then no token after it is there;
//   - ordinals are contiguous, epochs increase, and no record of a lower epoch follows one of a higher epoch.
func TestLogEqualsModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		plan := program{
			ops:    rapid.SliceOfN(opGen(), 1, 40).Draw(rt, "ops"),
			faults: slices.Concat(rapid.SliceOfN(faultGen(), 0, 60).Draw(rt, "faults")...),
			queue:  rapid.IntRange(1, 12).Draw(rt, "queue"),
			batch:  rapid.Bool().Draw(rt, "batch"),
			pace:   rapid.SampledFrom([]time.Duration{Off, 10 * time.Millisecond, 60 * time.Millisecond, time.Hour}).Draw(rt, "pace"),
		}
		var problems []string
		synctest.Test(t, func(t *testing.T) { problems = plan.run(t) })
		if len(problems) > 0 {
			rt.Fatalf("%s", strings.Join(problems, "\n"))
		}
	})
}

type program struct {
	ops    []op
	faults []fault
	queue  int
	batch  bool // the log stores batches
	pace   time.Duration
}

type op struct {
	what  string
	sleep time.Duration
}

func opGen() *rapid.Generator[op] {
	return rapid.Custom(func(t *rapid.T) op {
		return op{
			what: rapid.SampledFrom([]string{
				"say", "say", "say", "think", "custom", "write", "write custom", "refused", "write refused",
				"flush", "pause", "activate", "end", "restart", "other", "sleep", "long", "brief",
			}).Draw(t, "what"),
			sleep: time.Duration(rapid.IntRange(0, 3).Draw(t, "sleep")) * 7 * time.Millisecond,
		}
	})
}

// faultGen generates faults that follow each other.
func faultGen() *rapid.Generator[[]fault] {
	return rapid.Custom(func(t *rapid.T) []fault {
		d := time.Duration(rapid.IntRange(0, 50).Draw(t, "ms")) * time.Millisecond
		full := fault{before: &jetstream.APIError{ErrorCode: codeNoStorage}}
		away := fault{before: jsclient.ErrNotConnected}
		late := fault{late: d * 100, after: nats.ErrTimeout}
		switch rapid.IntRange(0, 15).Draw(t, "kind") {
		case 0, 1, 2:
			return []fault{{delay: d}}
		case 3:
			return []fault{{after: nats.ErrTimeout}}
		case 4:
			return []fault{{before: nats.ErrDisconnected}}
		case 5:
			return []fault{late}
		case 6:
			return []fault{{before: &jetstream.APIError{ErrorCode: codeBusy}}}
		case 7:
			return []fault{full}
		case 8:
			return []fault{{delay: 40 * time.Second, before: nats.ErrTimeout}} // longer than the retry budget
		case 9, 10:
			return []fault{{noBatch: true}}
		case 11, 12:
			return []fault{late, {noBatch: true}}
		case 13: // the batch arrives after the end of all retries
			return append([]fault{{late: d * 2000, after: nats.ErrTimeout}, {noBatch: true}}, slices.Repeat([]fault{full}, 60)...)
		case 14:
			return append([]fault{{after: nats.ErrTimeout}, {noBatch: true}}, slices.Repeat([]fault{away}, 60)...)
		default:
			return []fault{away}
		}
	})
}

// token is a part of the text that the program wrote.
type token struct {
	text    string
	life    int // number of the run that wrote it
	part    int // number of errors before it
	refused bool
	written chunk.Seq // the result of Write
}

// simulation is the program's state while it runs.
type simulation struct {
	t        *testing.T
	l        *fakeLog
	cfg      Config
	r        *Run
	life     int
	part     int
	tokens   []token
	broken   map[int]bool // runs that ended in an error, by a crash or with queued chunks
	reported int
	problems []string
}

func (w *simulation) problemf(format string, args ...any) {
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

//tailrace:bubble
func (p program) run(t *testing.T) []string {
	t.Helper()
	l := newFakeLog(t, testSession)
	l.batches = p.batch
	faults := slices.Clone(p.faults)
	l.fault = func(_ int, m outgoing) fault {
		if m.contains(`"eventName":"refused"`) {
			return fault{before: &jetstream.APIError{ErrorCode: codeTooLarge}}
		}
		if len(faults) == 0 {
			return fault{}
		}
		f := faults[0]
		faults = faults[1:]
		return f
	}
	w := &simulation{t: t, l: l, broken: map[int]bool{}, cfg: Config{MaxQueue: p.queue, Pace: p.pace, MaxChunk: 4 << 10}}
	w.start()
	for _, o := range p.ops {
		w.do(o)
		time.Sleep(o.sleep)
	}
	w.finish()
	time.Sleep(time.Hour) // late messages arrive
	w.check()
	return w.problems
}

func (w *simulation) start() {
	for {
		r, err := tryStart(w.t, w.l, w.cfg, chunk.RunStarted{Mode: "takeover"}, true)
		if err == nil {
			w.r = r
			w.life++
			return
		}
		if !errors.Is(err, chunk.ErrUnknownOutcome) && !errors.Is(err, chunk.ErrNotStored) {
			w.problemf("start: %v", err)
			return
		}
	}
}

// restart closes the run, as a crash would, and starts another.
func (w *simulation) restart() {
	w.broken[w.life] = true
	w.countLosses(w.r.Close())
	w.start()
}

// countLosses adds the losses that an error reports, and returns whether the error is nil.
func (w *simulation) countLosses(err error) bool {
	if err == nil {
		return true
	}
	w.part++
	var n int
	switch _, malformed := fmt.Sscanf(err.Error(), "%d queued chunks not stored", &n); {
	case malformed == nil:
		w.reported += n
	case strings.HasPrefix(err.Error(), "queued chunk: "):
		w.reported++
	}
	return false
}

func (w *simulation) do(o op) {
	ctx := w.t.Context()
	name := fmt.Sprintf("<%d>", len(w.tokens))
	custom := func(event string) chunk.Chunk {
		return chunk.Chunk{Body: chunk.Custom{EventName: event, Data: chunk.Value(`"` + name + `"`)}}
	}
	var err error
	switch o.what {
	case "say":
		err = w.emit(name, chunk.Chunk{Body: chunk.TextDelta{Delta: name}})
	case "think":
		err = w.emit(name, chunk.Chunk{Body: chunk.Thinking{Content: name}})
	case "long":
		name += strings.Repeat(".", 9<<10)
		err = w.emit(name, chunk.Chunk{Body: chunk.TextDelta{Delta: name}})
	case "custom":
		err = w.emit(name, custom("c"))
	case "refused":
		if err = w.emit(name, custom("refused")); err == nil {
			w.tokens[len(w.tokens)-1].refused = true
		}
	case "write":
		err = w.write(name, chunk.Chunk{Body: chunk.TextDelta{Delta: name}})
	case "write custom":
		err = w.write(name, custom("c"))
	case "brief":
		err = w.writeBriefly(name, custom("c"))
	case "write refused":
		if err = w.write(name, custom("refused")); err == nil {
			w.problemf("a refused chunk was written")
		}
	case "flush":
		_, err = w.r.Flush(ctx)
	case "pause":
		err = w.r.Pause(ctx, "")
	case "activate":
		err = w.r.Activate(ctx)
	case "end":
		if err = w.r.End(ctx, nil); err == nil {
			w.start()
		}
	case "restart":
		w.restart()
	case "other":
		w.l.takeOver()
	}
	w.countLosses(err)
	if sticky(err) {
		w.restart()
	}
}

func (w *simulation) emit(name string, c chunk.Chunk) error {
	err := w.r.Emit(w.t.Context(), c)
	if err == nil {
		w.tokens = append(w.tokens, token{text: name, life: w.life, part: w.part})
	}
	return err
}

func (w *simulation) write(name string, c chunk.Chunk) error {
	seq, err := w.r.Write(w.t.Context(), c)
	if err == nil || errors.Is(err, chunk.ErrUnknownOutcome) { // it may be stored, and the run ends
		w.tokens = append(w.tokens, token{text: name, life: w.life, part: w.part, written: seq})
	}
	return err
}

// writeBriefly is a Write with a short timeout.
func (w *simulation) writeBriefly(name string, c chunk.Chunk) error {
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Millisecond)
	defer cancel()
	seq, err := w.r.Write(ctx, c)
	switch {
	case err == nil:
		w.tokens = append(w.tokens, token{text: name, life: w.life, part: w.part, written: seq})
	case errors.Is(err, chunk.ErrUnknownOutcome), errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, chunk.ErrNotStored): // it is queued
		w.tokens = append(w.tokens, token{text: name, life: w.life, part: w.part})
	}
	return err
}

func (w *simulation) finish() {
	for range 100 {
		_, err := w.r.Flush(w.t.Context())
		if w.countLosses(err) {
			break
		}
		if sticky(err) {
			w.restart()
		}
	}
	w.countLosses(w.r.Close())
	if w.r.queue.bytes != 0 {
		w.problemf("%d bytes wait in an empty queue", w.r.queue.bytes)
	}
	if w.r.unreported.count > 0 {
		w.problemf("%d losses not reported", w.r.unreported.count)
	}
}

func (w *simulation) check() {
	var all strings.Builder // the log's text
	var pieces []piece
	var epoch chunk.Epoch
	for i, rec := range w.l.records() {
		if rec.Ordinal != chunk.Ordinal(i+1) {
			w.problemf("record %d has ordinal %d", i+1, rec.Ordinal)
		}
		if rec.Epoch < epoch || rec.Type == chunk.TypeRunStarted && rec.Epoch == epoch {
			w.problemf("epoch %d of a %s after %d", rec.Epoch, rec.Type, epoch)
		}
		epoch = rec.Epoch
		c, err := rec.Decode()
		if err != nil {
			w.problemf("record %d: %v", i, err)
			return
		}
		if s, ok := deltaText(c.Body); ok {
			all.WriteString(s)
		} else if b, ok := c.Body.(chunk.Custom); ok {
			all.WriteString(strings.Trim(string(b.Data), `"`))
		}
		pieces = append(pieces, piece{end: all.Len(), seq: rec.Seq})
	}
	w.match(all.String(), pieces)
}

// piece is the end of the text of one record.
type piece struct {
	end int
	seq chunk.Seq
}

// match compares the log's text with the tokens.
func (w *simulation) match(log string, pieces []piece) {
	at := 0
	missing := map[int]bool{} // parts of which a token is missing: none of their tokens may follow
	losses, others := 0, 0    // refused tokens, and those that were lost with others or in parts
	for _, tok := range w.tokens {
		if strings.HasPrefix(log[at:], tok.text) {
			at += len(tok.text)
			if missing[tok.part] {
				w.problemf("%.9s is there and one before it is not", tok.text)
			}
			if tok.refused {
				w.problemf("%.9s was refused and is there", tok.text)
			}
			i := slices.IndexFunc(pieces, func(p piece) bool { return p.end >= at })
			if tok.written != 0 && pieces[i].seq != tok.written {
				w.problemf("%.9s ends at sequence %d, Write returned %d", tok.text, pieces[i].seq, tok.written)
			}
			continue
		}
		switch {
		case tok.written != 0:
			w.problemf("%.9s was acknowledged and is not there; the log continues with %.20q", tok.text, log[at:])
		case tok.refused:
			losses++
		default:
			if !w.broken[tok.life] {
				others++ // rejected because the store was full for too long: the error was returned
			}
			missing[tok.part] = true
			at += w.skipPart(log[at:], tok.text)
		}
	}
	if at != len(log) {
		w.problemf("the log has a text that was not written: %.40q", log[at:])
	}
	if len(w.broken) == 0 && (w.reported < losses+min(others, 1) || w.reported > losses && others == 0) {
		w.problemf("%d losses and %d others, %d reported", losses, others, w.reported)
	}
}

// skipPart returns the length of the part of a long token that is there: its run ended between its parts.
func (w *simulation) skipPart(log, text string) int {
	n := 0
	for n < len(log) && n < len(text) && log[n] == text[n] {
		n++
	}
	if n <= len("<0>") || !strings.Contains(text[:n], ".") {
		return 0
	}
	return n
}
